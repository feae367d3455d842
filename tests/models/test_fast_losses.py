"""The faster mean of a loss has the value and the gradient of Keras's own."""

import numpy as np
import pytest
import tensorflow as tf

from tff_momentum.models import fast_losses

LOSSES = {
  "labels": tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
  "regression": tf.keras.losses.MeanSquaredError(),
  "explicit mean": tf.keras.losses.MeanAbsoluteError("sum_over_batch_size"),
  "a sum": tf.keras.losses.MeanAbsoluteError("sum"),
  "a function": lambda y, p: tf.reduce_mean(tf.keras.losses.hinge(y, p)),
}


def value_and_gradient(loss, labels, predictions):
  with tf.GradientTape() as tape:
    tape.watch(predictions)
    value = loss(labels, predictions)
  return value, tape.gradient(value, predictions)


@pytest.mark.parametrize("name", LOSSES)
def test_it_equals_keras(name):
  draw = np.random.default_rng(0)
  predictions = tf.constant(draw.normal(size=[5, 3]).astype(np.float32))
  labels = tf.constant([0, 2, 1, 1, 0])
  if name != "labels":
    labels = tf.constant(draw.normal(size=[5, 3]).astype(np.float32))
  loss = LOSSES[name]
  expected = value_and_gradient(loss, labels, predictions)
  found = value_and_gradient(lambda y, p: fast_losses.mean_loss(loss, y, p), labels, predictions)
  for a, b in zip(expected, found, strict=True):
    np.testing.assert_allclose(a, b, rtol=1e-6)


def test_labels_for_each_token_have_the_mean_over_all_tokens():
  draw = np.random.default_rng(1)
  predictions = tf.constant(draw.normal(size=[2, 4, 3]).astype(np.float32))
  labels = tf.constant(draw.integers(0, 3, [2, 4]))
  loss = LOSSES["labels"]
  np.testing.assert_allclose(
    fast_losses.mean_loss(loss, labels, predictions), loss(labels, predictions), rtol=1e-6
  )


def test_masked_predictions_keep_keras_formula():
  loss = LOSSES["regression"]
  labels, predictions = tf.ones([2, 3, 1]), tf.constant([[[1.0], [2.0], [3.0]]] * 2)
  predictions._keras_mask = tf.constant([[True, True, False]] * 2)
  np.testing.assert_allclose(
    fast_losses.mean_loss(loss, labels, predictions), loss(labels, predictions)
  )


def test_the_mean_of_nothing_is_zero():
  value, gradient = value_and_gradient(lambda _, v: fast_losses.mean(v), None, tf.zeros([0]))
  assert float(value) == 0
  assert gradient.shape == [0]


def test_a_gradient_has_fewer_operations_than_keras():
  def count(function):
    with tf.Graph().as_default() as graph:
      predictions = tf.compat.v1.placeholder(tf.float32, [None, 3])
      labels = tf.compat.v1.placeholder(tf.int32, [None])
      value = function(LOSSES["labels"], labels, predictions)
      tf.gradients(value, predictions)
    return len(graph.get_operations())

  assert count(fast_losses.mean_loss) < 0.7 * count(lambda loss, y, p: loss(y, p))
