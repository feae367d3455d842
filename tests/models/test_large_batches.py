"""Full gradients join batches where that changes nothing but the rounding."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tff_momentum as tfm
from tests.helpers import harness
from tff_momentum.models import large_batches
from tff_momentum.runtime import ClientBatches, create_inprocess_context
from tff_momentum.runtime.context import program_of

layers, losses = tf.keras.layers, tf.keras.losses
MEAN = losses.SparseCategoricalCrossentropy(from_logits=True)


class Centred(layers.Dense):
  """A layer whose output for an example depends on the other examples of its batch."""

  def call(self, x):
    y = super().call(x)
    return y - tf.reduce_mean(y, axis=0)


def dense(*more):
  return tf.keras.Sequential([layers.Flatten(input_shape=(4, 1)), *more, layers.Dense(3)])


@pytest.mark.parametrize(
  ("model", "loss", "expected"),
  [
    (dense(), MEAN, True),
    (dense(layers.Dense(5, "relu")), MEAN, True),
    (dense(), losses.MeanSquaredError(), True),
    (dense(), losses.MeanSquaredError("sum"), False),
    (dense(), lambda y, p: tf.reduce_sum(p), False),
    (dense(layers.Dropout(0.5)), MEAN, False),
    (dense(layers.Dense(5, lambda y: y - tf.reduce_mean(y, 0))), MEAN, False),
    (dense(Centred(5)), MEAN, False),
    (dense(layers.Reshape([4, 1]), layers.Conv1D(2, 2), layers.Flatten()), MEAN, False),
  ],
)
def test_only_plain_dense_models_with_a_mean_loss_join_batches(model, loss, expected):
  assert large_batches.can_join(model, loss) == expected


@pytest.fixture
def data():
  draw = np.random.default_rng(0)
  x = draw.normal(size=[23, 4, 1]).astype(np.float32)
  return x, draw.integers(3, size=23).astype(np.int32)


@pytest.fixture
def model():
  spec = (tf.TensorSpec([None, 4, 1]), tf.TensorSpec([None], tf.int32))
  return tfm.from_keras(lambda: dense(layers.Dense(5, "relu")), loss=MEAN, batch_spec=spec)


@pytest.mark.parametrize("size", [4, 7, 23, 256])
def test_the_size_changes_only_the_rounding(model, data, size):
  assert model.full_gradient_batch == large_batches.SIZE
  weights = tuple(tf.constant(w) for w in model.initial_weights)
  batches = tf.data.Dataset.from_tensor_slices(data).batch(5)

  def gradient(size):
    changed = dataclasses.replace(model, full_gradient_batch=size)
    seed, work = tf.zeros([2], tf.int32), tfm.LocalWork(weight_decay=0.1)
    client = tfm.Client(changed, work, batches, seed, tf.constant(0))
    found = harness.flatten(client.full_gradient(weights))
    return found, float(client.tally.examples), float(client.tally.loss)

  for found, expected in zip(gradient(size), gradient(None), strict=True):
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-7)


def double(batch, seed):
  x, y = batch
  return 2 * x, y


def add_noise(batch, seed):
  x, y = batch
  return x + tf.random.stateless_normal([4, 1], seed), y


@pytest.mark.parametrize("preprocess", [None, double, add_noise])
@pytest.mark.parametrize("fixed", [False, True], ids=["rest kept", "rest dropped"])
@pytest.mark.parametrize("as_gpu", [False, True], ids=["graphs for CPUs", "graphs for GPUs"])
def test_it_changes_only_the_rounding_of_a_round(model, data, preprocess, fixed, as_gpu):
  tff.framework.set_default_context(create_inprocess_context("cpu", as_gpu=as_gpu))
  settings = dict(client_learning_rate=0.1, client_weighting="num_examples")
  clients = [
    ClientBatches(
      data, batch_size=5, seed=(1, 2), begin=begin, end=end, preprocess=preprocess,
      drop_remainder=fixed,
    )
    for begin, end in ((0, 11), (11, 23), (4, 4))
  ]  # fmt: skip

  def round_of(datasets, size):
    changed = dataclasses.replace(model, full_gradient_batch=size)
    process = tfm.build_process(tfm.algorithms.mime(**settings), changed)
    inputs = [
      tfm.ClientInput(seed, process.initial_client_state(seed), dataset)
      for seed, dataset in zip(np.int32([[0, 1], [0, 2], [0, 3]]), datasets, strict=True)
    ]
    state = process.next(process.initialize(), inputs).state
    if isinstance(datasets[0], ClientBatches):
      assert program_of(process.next).reads_by_index
    return harness.flatten(process.weights(state))

  for datasets in (lambda: clients, lambda: [client.as_dataset() for client in clients]):
    joined, as_they_are = round_of(datasets(), 8), round_of(datasets(), None)
    np.testing.assert_allclose(joined, as_they_are, rtol=1e-5, atol=1e-6)
