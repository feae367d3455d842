"""Classifiers: the cross-entropy of logits, the accuracy, and the `Model` made from both."""

from collections.abc import Callable

import tensorflow as tf

from tff_momentum.models.keras import from_keras
from tff_momentum.models.model import Model


def cross_entropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
  """Returns the mean cross-entropy of a batch."""
  return tf.reduce_mean(
    tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
  )


def accuracy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
  """Returns for each example whether the largest logit is that of the label."""
  return tf.equal(tf.argmax(logits, -1, labels.dtype), labels)


def classifier(
  build: "Callable[[], tf.keras.Model]",
  input_spec: tf.TensorSpec,
  seed: int,
  penultimate: str | None = None,
) -> Model:
  """Makes a `Model` from a Keras classifier of (images or feature vectors, int32 labels).

  Args:
    build: () -> a Keras model that returns logits.
    input_spec: the spec of a batch of inputs.
    seed: seed of the initial weights.
    penultimate: name of the last hidden layer, which FedMAX regularises; None if there is none.
  """
  return from_keras(
    build,
    loss=cross_entropy,
    batch_spec=(input_spec, tf.TensorSpec([None], tf.int32)),
    metrics={"accuracy": accuracy},
    seed=seed,
    penultimate=penultimate,
  )
