"""What all classifiers share: the cross-entropy of logits, and the share of right answers."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tff_momentum.models.keras import from_keras
from tff_momentum.models.model import Model


def cross_entropy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
  """The mean cross-entropy of a batch."""
  return tf.reduce_mean(
    tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
  )


def accuracy(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
  """For each example, whether the largest logit is the label's."""
  return tf.equal(tf.argmax(logits, -1, labels.dtype), labels)


def classifier(
  build: "Callable[[], tf.keras.Model]", image_spec: Any, seed: int, penultimate: str | None = None
) -> Model:
  """A `Model` of a Keras classifier of (images or feature vectors, int32 labels)."""
  return from_keras(
    build,
    loss=cross_entropy,
    batch_spec=(image_spec, tf.TensorSpec([None], tf.int32)),
    metrics={"accuracy": accuracy},
    seed=seed,
    penultimate=penultimate,
  )
