"""A task of one's own: points of the plane, labelled by the sign of the product of their coordinates."""

import numpy as np
import tensorflow as tf

import tff_momentum as tfm
from tasks.data.batches import ArrayClients, ordered_batches
from tasks.task import Defaults, Task


def load(*, seed, num_clients=12, spread=1.0, points_per_client=30):
  """Points of the plane; each client sees its own part of it."""
  rng = np.random.default_rng(seed)
  centres = spread * rng.normal(size=(num_clients, 1, 2))
  x = (centres + rng.normal(size=(num_clients, points_per_client, 2))).reshape(-1, 2)
  test = rng.normal(size=(400, 2))
  clients = ArrayClients.of(
    _labelled(x), np.split(np.arange(num_clients * points_per_client), num_clients)
  )
  return Task(
    name="plane",
    model=tfm.from_keras(
      _build,
      loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
      batch_spec=(tf.TensorSpec([None, 2]), tf.TensorSpec([None], tf.int32)),
      metrics={"accuracy": tf.keras.metrics.sparse_categorical_accuracy},
      seed=seed,
    ),
    clients=clients.ids,
    dataset=clients.dataset,
    evaluation=lambda batch_size: ordered_batches(_labelled(test), batch_size),
    total_examples=clients.total_examples,
    defaults=Defaults(
      total_rounds=20, clients_per_round=4, client_batch_size=10, client_learning_rate=0.2
    ),
    data="synthetic",
  )


def _labelled(x):
  return x.astype(np.float32), (x[:, 0] * x[:, 1] > 0).astype(np.int32)


def _build():
  layers = tf.keras.layers
  return tf.keras.Sequential(
    [layers.Dense(16, activation="relu", input_shape=(2,)), layers.Dense(2)]
  )


def no_task(*, seed):
  """Returns something else."""
  return [seed]


def without_seed(*, num_clients=3):
  """Lacks the seed."""


def with_required(*, seed, path):
  """Needs an option."""
  return load(seed=seed) if path else None
