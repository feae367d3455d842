"""The small problem on which an algorithm is compared with its oracle: softmax regression.

The model has two weight tensors. Its five clients have very different sizes, ragged last batches, and in one
case no data. The oracle sees the same examples in float64 NumPy and uses a gradient written by hand.
"""

import collections
from typing import Any

import numpy as np
import tensorflow as tf

from tff_momentum.models.model import Model, Tally
from tff_momentum.testing.oracle import Cohorts, OracleProblem
from tff_momentum.testing.runs import flatten

FEATURES, CLASSES, BATCH = 3, 4, 3
SIZES = (7, 4, 1, 12, 0)
COHORTS: Cohorts = ([0, 1, 3], [2, 3, 4], [3, 0, 2])
_SHAPES = ((FEATURES, CLASSES), (CLASSES,))


def client_examples(i: int) -> tuple[np.ndarray, np.ndarray]:
  """The examples of client i. Each client favours one label and has its own mean of the features."""
  rng = np.random.default_rng(100 + i)
  x = rng.normal(0.5 * i, 1.0, (SIZES[i], FEATURES)).astype(np.float32)
  y = np.where(rng.random(SIZES[i]) < 0.6, i % CLASSES, rng.integers(0, CLASSES, SIZES[i]))
  return x, y.astype(np.int32)


def initial_weights() -> tuple[np.ndarray, ...]:
  """The weights that the product and the oracle start from."""
  rng = np.random.default_rng(7)
  return tuple(rng.normal(0, 0.3, shape).astype(np.float32) for shape in _SHAPES)


def softmax_model() -> Model:
  """Softmax regression as a `Model`."""

  def forward(weights, batch):
    x, y = batch
    logits = tf.matmul(x, weights[0]) + weights[1]
    losses = tf.nn.sparse_softmax_cross_entropy_with_logits(y, logits)
    n = tf.cast(tf.shape(x)[0], tf.float32)
    right = tf.reduce_sum(tf.cast(tf.equal(tf.argmax(logits, 1, tf.int32), y), tf.float32))
    loss = tf.reduce_mean(losses)
    return loss, Tally(n, loss * n, collections.OrderedDict(accuracy=(right, n)))

  def value_and_grad(weights, batch, seed):
    with tf.GradientTape() as tape:
      tape.watch(weights)
      loss, tally = forward(weights, batch)
    return tally, tuple(tape.gradient(loss, weights))

  zero = np.float32(0)
  return Model(
    initial_weights=initial_weights(),
    batch_spec=(
      tf.TensorSpec([None, FEATURES], tf.float32),
      tf.TensorSpec([None], tf.int32),
    ),
    value_and_grad=value_and_grad,
    evaluate=lambda weights, batch: forward(weights, batch)[1],
    empty_tally=lambda: tf.nest.map_structure(
      tf.constant, Tally(zero, zero, collections.OrderedDict(accuracy=(zero, zero)))
    ),
    finalize_metrics=lambda sums: collections.OrderedDict(
      accuracy=tf.math.divide_no_nan(*sums["accuracy"])
    ),
    fresh_weights=lambda seed: tuple(
      np.random.default_rng(seed).normal(0, 0.3, shape).astype(np.float32) for shape in _SHAPES
    ),
  )


def oracle_problem(**work: Any) -> OracleProblem:
  """The same problem for the oracle; `work` is any of epochs, steps, weight_decay and clip_norm."""

  def gradient(flat, batch):
    x, y = batch
    W = flat[: FEATURES * CLASSES].reshape(FEATURES, CLASSES)
    logits = x @ W + flat[FEATURES * CLASSES :]
    p = np.exp(logits - logits.max(1, keepdims=True))
    p /= p.sum(1, keepdims=True)
    p[np.arange(len(y)), y] -= 1
    return np.concatenate([(x.T @ p).ravel(), p.sum(0)]) / len(y)

  clients = []
  for i in range(len(SIZES)):
    x, y = client_examples(i)
    x = x.astype(np.float64)
    clients.append([(x[k : k + BATCH], y[k : k + BATCH]) for k in range(0, len(y), BATCH)])
  return OracleProblem(
    x0=flatten(initial_weights()),
    clients=clients,
    gradient=gradient,
    size=lambda b: len(b[1]),
    splits=tuple(int(np.prod(shape)) for shape in _SHAPES),
    shapes=_SHAPES,
    **work,
  )


def client_dataset(i: int) -> tf.data.Dataset:
  """The batches of client i, in a fixed order."""
  return tf.data.Dataset.from_tensor_slices(client_examples(i)).batch(BATCH)
