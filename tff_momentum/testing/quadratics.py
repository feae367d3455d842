"""The problem on which the contract suite runs an algorithm: heterogeneous least squares.

The loss is quadratic, and each client has its own Hessian and its own optimum. The last two clients have no
examples. The two outputs also serve as the penultimate layer, for FedMAX's penalty.
"""

import collections
import functools

import numpy as np
import tensorflow as tf

from tff_momentum.models.model import Model, Tally
from tff_momentum.runtime import ClientBatches

SIZES = (6, 3, 1, 8, 4, 5, 0, 0)
EMPTY = (6, 7)
BATCH = 3
ROUNDS = 30
_ORDER = np.random.default_rng(5)
COHORTS = tuple(tuple(_ORDER.choice(6, 2, replace=False)) for _ in range(ROUNDS))
# Values for the parameters that builders require, or that describe the problem.
EXAMPLES: dict[str, object] = {
  "client_learning_rate": 0.05,
  "num_clients": len(SIZES),
  "total_examples": sum(SIZES),
  "participation": 2 / len(SIZES),
}


def quadratic_model(penalty=None) -> Model:
  """½ |u A + v B − z|², a mean over the examples (u, v; z), in the weights A and B."""

  def forward(weights, batch):
    (u, v), z = batch
    outputs = tf.matmul(u, weights[0]) + tf.matmul(v, weights[1])
    loss = tf.reduce_mean(tf.reduce_sum(tf.square(outputs - z), axis=1)) / 2
    loss = loss if penalty is None else loss + penalty(outputs)
    n = tf.cast(tf.shape(z)[0], tf.float32)
    return loss, Tally(n, loss * n, ())

  def value_and_grad(weights, batch, seed):
    with tf.GradientTape() as tape:
      tape.watch(weights)
      loss, tally = forward(weights, batch)
    return tally, tuple(tape.gradient(loss, weights))

  return Model(
    initial_weights=(np.full((2, 2), -1.0, np.float32), np.full((3, 2), 1.5, np.float32)),
    batch_spec=(
      (tf.TensorSpec([None, 2], tf.float32), tf.TensorSpec([None, 3], tf.float32)),
      tf.TensorSpec([None, 2], tf.float32),
    ),
    value_and_grad=value_and_grad,
    evaluate=lambda weights, batch: forward(weights, batch)[1],
    empty_tally=lambda: Tally(tf.zeros([]), tf.zeros([]), ()),
    finalize_metrics=lambda sums: collections.OrderedDict(),
    fresh_weights=lambda seed: (
      np.random.default_rng(seed).normal(size=(2, 2)).astype(np.float32),
      np.random.default_rng(seed + 1).normal(size=(3, 2)).astype(np.float32),
    ),
    with_penalty=quadratic_model,
  )


@functools.cache
def examples(i: int):
  """The examples ((u, v), z) of client i."""
  rng = np.random.default_rng(50 + i)
  scale, truth = rng.uniform(0.4, 1.0, size=5), rng.normal(0.3, 0.5, size=(5, 2))
  rows = rng.normal(size=(SIZES[i], 5)) * scale
  z = rows @ truth + 0.1 * rng.normal(size=(SIZES[i], 2))
  rows, z = rows.astype(np.float32), z.astype(np.float32)
  return (rows[:, :2], rows[:, 2:]), z


def dataset(i: int) -> tf.data.Dataset:
  """The batches of client i, in a fixed order."""
  return tf.data.Dataset.from_tensor_slices(examples(i)).batch(BATCH)


def client_batches(i: int) -> ClientBatches:
  """The same examples as arrays, which the runtime reads on the device itself."""
  return ClientBatches(examples(i), batch_size=BATCH, seed=np.array([1, i], np.int32))


def broken_dataset(i: int) -> tf.data.Dataset:
  """The same with NaN in place of every target."""
  inputs, z = examples(i)
  return tf.data.Dataset.from_tensor_slices((inputs, np.full_like(z, np.nan))).batch(BATCH)


class QuadraticTask:
  """The problem as a task for the round loop."""

  clients = [str(i) for i in range(len(SIZES))]  # noqa: RUF012

  def dataset(self, client, seed, batch_size):
    """The batches of a client, the same in every round."""
    return dataset(int(client))

  def evaluation(self, batch_size):
    """The data of the first client."""
    return dataset(0)


def loss(flat: np.ndarray) -> float:
  """The loss of a flat model on the examples of all clients together."""
  A, B = flat[:4].reshape(2, 2), flat[4:].reshape(3, 2)
  total = 0.0
  for i in range(len(SIZES)):
    (u, v), z = examples(i)
    total += np.sum((u @ A + v @ B - z) ** 2) / 2
  return total / sum(SIZES)
