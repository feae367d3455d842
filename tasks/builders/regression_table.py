"""Regression on a small table: a fixed fifth of the rows for testing, the rest split over clients."""

import numpy as np
import tensorflow as tf

from tasks.data import partitions
from tasks.data.batches import ArrayClients, ordered_batches
from tasks.models import tables
from tasks.task import Defaults, Task
from tff_momentum import validation
from tff_momentum.models.keras import from_keras
from tff_momentum.models.model import Model

MODELS = {
  "linear": (tables.linear, None),
  "mlp": (tables.mlp, "hidden"),
}  # and its last hidden layer


def regression_task(
  name: str,
  features: np.ndarray,
  target: np.ndarray,
  *,
  seed: int,
  num_clients: int,
  similarity: float,
  model: str,
  data: str,
  client_learning_rate: float,
) -> Task:
  """Builds a regression task from a table of numbers.

  Features and target are standardised with the mean and deviation of the training rows. The loss is the mean
  squared error; the metric `r2` is the fraction of the test targets' variance that the model explains.

  Args:
    name: the task's name.
    features: float[rows, features].
    target: float[rows].
    seed: seed of the split and the initial weights.
    num_clients: number of clients.
    similarity: percentage of each client's rows that are drawn at random; the rest are neighbours in the
      order of the target.
    model: linear or mlp.
    data: embedded, real or synthetic.
    client_learning_rate: the default learning rate.

  Returns:
    The task.

  Raises:
    ValueError: an option is invalid.
  """
  validation.one_of("model", model, MODELS)
  test = np.zeros(len(target), bool)
  test[np.random.default_rng(0).permutation(len(target))[: round(len(target) / 5)]] = True
  x = _standardise(features, ~test).astype(np.float32)
  y = _standardise(target[:, None], ~test).astype(np.float32)
  parts = partitions.sorted_similarity(y[~test, 0], num_clients, similarity, seed)
  clients = ArrayClients.of((x[~test], y[~test]), parts)
  return clients.task(
    name,
    _model(model, x.shape[1], float(np.var(y[test])), seed),
    lambda batch_size: ordered_batches((x[test], y[test]), batch_size),
    Defaults(
      total_rounds=100,
      clients_per_round=min(10, num_clients),
      client_batch_size=10,
      client_learning_rate=client_learning_rate,
    ),
    {"num_clients": num_clients, "similarity": similarity, "model": model},
    data,
  )


def _standardise(table: np.ndarray, train: np.ndarray) -> np.ndarray:
  scale = table[train].std(axis=0)
  return (table - table[train].mean(axis=0)) / np.where(scale > 0, scale, 1)


def _model(name: str, features: int, variance: float, seed: int) -> Model:
  build, penultimate = MODELS[name]

  def loss(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(tf.square(labels - predictions))

  def r2(labels: tf.Tensor, predictions: tf.Tensor) -> tf.Tensor:
    # The mean over the test set is 1 − Σ(y − p)² / Σ(y − ȳ)².
    return 1 - tf.square(labels - predictions) / variance

  return from_keras(
    lambda: build(features),
    loss=loss,
    batch_spec=(
      tf.TensorSpec([None, features], tf.float32),
      tf.TensorSpec([None, 1], tf.float32),
    ),
    metrics={"r2": r2},
    seed=seed,
    penultimate=penultimate,
  )
