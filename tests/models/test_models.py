"""Keras and TFF functional models as pure functions of (weights, batch, seed)."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.helpers import harness
from tff_momentum import algorithms
from tff_momentum.models.keras import from_keras
from tff_momentum.processes.functional_model import as_model

L = tf.keras.layers
LOSS = tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)
TOKENS = (tf.TensorSpec([None, 6], tf.int32), tf.TensorSpec([None], tf.int32))
IMAGES = (tf.TensorSpec([None, 8, 8, 2], tf.float32), tf.TensorSpec([None], tf.int32))
STACKS = {
  "embedding and GRU": (TOKENS, lambda: [L.Embedding(9, 4), L.GRU(5), L.Dense(3)]),
  "stacked LSTM": (
    TOKENS,
    lambda: [L.Embedding(9, 4), L.LSTM(5, return_sequences=True), L.LSTM(5), L.Dense(3)],
  ),
  "convolution and GroupNormalization": (
    IMAGES,
    lambda: [L.Conv2D(4, 3), L.GroupNormalization(2), L.MaxPool2D(), L.Flatten(), L.Dense(3)],
  ),
  "regularised dense": (
    IMAGES,
    lambda: [L.Flatten(), L.Dense(3, kernel_regularizer=tf.keras.regularizers.L2(0.1))],
  ),
  "frozen layer": (IMAGES, lambda: [L.Flatten(), L.Dense(4, trainable=False), L.Dense(3)]),
}


def keras_stack(spec, layers):
  return tf.keras.Sequential([L.InputLayer(spec[0].shape[1:], dtype=spec[0].dtype), *layers()])


def example_batch(spec, n=5):
  rng = np.random.default_rng(0)
  shape = [n, *spec[0].shape[1:]]
  x = rng.integers(0, 9, shape) if spec[0].dtype == tf.int32 else rng.normal(size=shape)
  return tf.constant(x, spec[0].dtype), tf.constant(rng.integers(0, 3, n), tf.int32)


def pure(model):
  weights = tuple(tf.constant(w) for w in model.initial_weights)
  function = tf.function(model.value_and_grad)
  return lambda batch, seed: function(weights, batch, tf.constant(seed, tf.int32))


@pytest.mark.parametrize("name", STACKS)
def test_gradient_is_that_of_keras(name):
  spec, layers = STACKS[name]
  batch = example_batch(spec)
  tally, gradient = pure(from_keras(lambda: keras_stack(spec, layers), loss=LOSS, batch_spec=spec))(
    batch, [1, 2]
  )
  tf.keras.utils.set_random_seed(0)
  keras = keras_stack(spec, layers)
  with tf.GradientTape() as tape:
    loss = LOSS(batch[1], keras(batch[0], training=True)) + sum(keras.losses)
  expected = tape.gradient(loss, keras.trainable_weights)
  np.testing.assert_allclose(tally.loss / tally.examples, loss, rtol=1e-5)
  for actual, wanted in zip(gradient, expected, strict=True):
    np.testing.assert_allclose(actual, tf.convert_to_tensor(wanted), rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize(
  "layers",
  [
    lambda: [L.Flatten(), L.Dropout(0.5), L.Dense(8), L.Dropout(0.5), L.Dense(3)],
    lambda: [L.Reshape((8, 16)), L.LSTM(4, dropout=0.3, recurrent_dropout=0.3), L.Dense(3)],
    lambda: [L.GaussianNoise(0.5), L.Flatten(), L.Dense(3)],
  ],
  ids=["dropout", "recurrent dropout", "noise"],
)
def test_dropout_is_a_function_of_the_seed(layers):
  grad = pure(from_keras(lambda: keras_stack(IMAGES, layers), loss=LOSS, batch_spec=IMAGES))
  batch = example_batch(IMAGES)
  first, again, other = (harness.flatten(grad(batch, seed)[1]) for seed in ([1, 2], [1, 2], [1, 3]))
  np.testing.assert_array_equal(first, again)
  assert np.linalg.norm(first - other) > 1e-3


def test_two_dropout_layers_have_different_masks():
  layers = lambda: [L.Flatten(), L.Dropout(0.5), L.Dense(128, "linear", False), L.Dropout(0.5)]  # noqa: E731
  model = from_keras(
    lambda: keras_stack(IMAGES, layers), loss=lambda y, p: tf.reduce_mean(p), batch_spec=IMAGES
  )
  identity = (tf.eye(128),)
  batch = (tf.ones([1, 8, 8, 2]), tf.zeros([1], tf.int32))
  _, gradient = tf.function(model.value_and_grad)(identity, batch, tf.constant([1, 2]))
  diagonal = np.diag(gradient[0].numpy())
  assert 16 < np.count_nonzero(diagonal) < 48  # a quarter of 128 passes two masks, half passes one


def test_batch_normalization_is_refused_with_the_reason():
  with pytest.raises(ValueError, match=r"BatchNormalization.*running averages.*GroupNormalization"):
    from_keras(
      lambda: keras_stack(IMAGES, lambda: [L.BatchNormalization(), L.Flatten(), L.Dense(3)]),
      loss=LOSS,
      batch_spec=IMAGES,
    )


def test_a_metric_that_is_a_single_number_is_refused():
  with pytest.raises(ValueError, match=r"tf\.equal"):
    from_keras(
      lambda: keras_stack(IMAGES, lambda: [L.Flatten(), L.Dense(3)]),
      loss=LOSS,
      batch_spec=IMAGES,
      metrics={"accuracy": lambda y, p: tf.cast(tf.argmax(p, 1) == y, tf.float32)},
    )


def functional_model(predict):
  @tf.function
  def initialize():
    return collections.OrderedDict(seen=tf.zeros([]))

  @tf.function
  def update(state, labels, output, sample_weight=None):
    seen = tf.cast(output.num_examples, tf.float32)
    return collections.OrderedDict(seen=state["seen"] + seen)

  @tf.function
  def finalize(state):
    return collections.OrderedDict(seen=state["seen"])

  return tff.learning.models.FunctionalModel(
    initial_weights=(harness.initial_weights(), ()),
    predict_on_batch_fn=tf.function(predict),
    loss_fn=lambda output, label, sample_weight=None: LOSS(label, output),
    metrics_fns=(initialize, update, finalize),
    input_spec=harness.softmax_model().batch_spec,
  )


def test_a_functional_model_trains_the_same_and_counts_each_batch_once():
  def predict(weights, x, training):
    (kernel, bias), _ = weights
    return tf.matmul(x, kernel) + bias

  algorithm = algorithms.builder("mime")(client_learning_rate=0.1)
  run = harness.run_product(algorithm, model=functional_model(predict))
  harness.assert_same_models(run.x, harness.run_product(algorithm).x, 1e-6)
  seen = sum(harness.SIZES[i] for i in harness.COHORTS[0])
  assert run.metrics[0]["train"]["seen"] == seen == run.metrics[0]["train"]["num_examples"]


def test_a_functional_model_with_its_own_randomness_is_refused():
  def predict(weights, x, training):
    (kernel, bias), _ = weights
    return tf.matmul(tf.nn.dropout(x, 0.5), kernel) + bias

  with pytest.raises(ValueError, match="draws random numbers"):
    as_model(functional_model(predict))


def test_a_bare_keras_model_is_refused_with_the_way_on():
  with pytest.raises(ValueError, match="from_keras"):
    as_model(keras_stack(IMAGES, lambda: [L.Flatten(), L.Dense(3)]))
