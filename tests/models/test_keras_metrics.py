"""Keras metrics as a list: their names, their values, and what cannot be a metric of a model."""

import functools

import numpy as np
import pytest
import tensorflow as tf

import tff_momentum as tfm

METRICS = tf.keras.metrics


def model(metrics, units=3):
  return tfm.from_keras(
    lambda: tf.keras.Sequential([tf.keras.layers.Dense(units, input_shape=(4,))]),
    loss=lambda labels, predictions: tf.reduce_mean(predictions),
    batch_spec=(tf.TensorSpec([None, 4]), tf.TensorSpec([None], tf.int32)),
    metrics=metrics,
  )


def measured(found, x, y):
  tally = tf.function(found.evaluate)(found.initial_weights, (tf.constant(x), tf.constant(y)))
  return {name: float(value) for name, value in found.finalize(tally).items()}


@pytest.mark.parametrize(
  ("name", "options", "units"),
  [
    ("SparseCategoricalAccuracy", {}, 3),
    ("SparseTopKCategoricalAccuracy", {"k": 2}, 3),
    ("SparseCategoricalCrossentropy", {"from_logits": True}, 3),
    ("BinaryAccuracy", {"threshold": 0.1}, 1),  # a column of predictions, a row of labels
  ],
)
def test_a_keras_metric_has_keras_own_value_and_name(name, options, units):
  metric = functools.partial(getattr(METRICS, name), **options)
  rng = np.random.default_rng(0)
  x, y = (
    rng.normal(size=(9, 4)).astype(np.float32),
    rng.integers(0, min(units + 1, 3), 9).astype(np.int32),
  )
  found, keras = model([metric()], units), metric()
  kernel, bias = found.initial_weights
  keras.update_state(y, x @ kernel + bias)
  assert measured(found, x, y)[keras.name] == pytest.approx(float(keras.result()), rel=1e-5)


def test_lists_and_dictionaries_give_the_same_metrics():
  x, y = np.eye(4, dtype=np.float32), np.array([0, 1, 2, 0], np.int32)
  listed = model(
    [METRICS.sparse_categorical_accuracy, METRICS.SparseCategoricalAccuracy(name="same")]
  )
  named = model(
    {"a": METRICS.sparse_categorical_accuracy, "b": METRICS.SparseCategoricalAccuracy()}
  )
  first, second = measured(listed, x, y), measured(named, x, y)
  assert first["sparse_categorical_accuracy"] == first["same"] == second["a"] == second["b"]


@pytest.mark.parametrize(
  ("metrics", "message"),
  [
    ("accuracy", r"write \[metric\]"),
    (["accuracy"], r"found 'accuracy', for instance instead of tf.keras.metrics.Sparse"),
    ([METRICS.AUC], None),
    ([lambda labels, predictions: labels], "give the metrics as a dictionary by name"),
    ([METRICS.sparse_categorical_accuracy] * 2, "'sparse_categorical_accuracy' twice"),
  ],
)
def test_what_is_no_metric_is_refused_with_one_sentence(metrics, message):
  if message is None:  # a Keras object has to be made inside the test
    metrics, message = (
      [metric() for metric in metrics],
      "found AUC, which cannot be summed over clients",
    )
  with pytest.raises(ValueError, match=message):
    model(metrics)
