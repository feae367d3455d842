"""The problem on which the contract suite runs every algorithm: heterogeneous least squares.

The loss is quadratic, and each client has its own Hessian and its own optimum. The last two clients have no
examples. The two outputs also serve as the penultimate layer, for FedMAX's penalty.
"""

import collections
import functools

import numpy as np
import tensorflow as tf

from tests.helpers import harness
from tff_momentum import algorithms
from tff_momentum.client import LocalWork
from tff_momentum.models.model import Model, Tally
from tff_momentum.processes.process import build_process
from tff_momentum.registry import ALGORITHMS, REQUIRED

SIZES = (6, 3, 1, 8, 4, 5, 0, 0)
EMPTY = (6, 7)
BATCH = 3
ROUNDS = 30
_ORDER = np.random.default_rng(5)
COHORTS = tuple(tuple(_ORDER.choice(6, 2, replace=False)) for _ in range(ROUNDS))
# Values for the parameters that builders require, or that describe the problem.
EXAMPLES = {
  "client_learning_rate": 0.05,
  "num_clients": len(SIZES),
  "total_examples": sum(SIZES),
  "participation": 2 / len(SIZES),
}


def arguments(name: str) -> dict:
  """The arguments of this suite for an algorithm's builder."""
  parameters = ALGORITHMS[name].hyperparameters
  required = {n for n, default in parameters.items() if default is REQUIRED}
  assert required <= EXAMPLES.keys(), f"{name} needs an example of {required - EXAMPLES.keys()}"
  return {n: value for n, value in EXAMPLES.items() if n in parameters}


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
  return tf.data.Dataset.from_tensor_slices(examples(i)).batch(BATCH)


class Task:
  """The problem as a task for the round loop."""

  clients = [str(i) for i in range(len(SIZES))]  # noqa: RUF012

  def dataset(self, client, seed, batch_size):
    return dataset(int(client))

  def evaluation(self, batch_size):
    return dataset(0)


def loss(flat: np.ndarray) -> float:
  """The loss of a flat model on the examples of all clients together."""
  A, B = flat[:4].reshape(2, 2), flat[4:].reshape(3, 2)
  total = 0.0
  for i in range(len(SIZES)):
    (u, v), z = examples(i)
    total += np.sum((u @ A + v @ B - z) ** 2) / 2
  return total / sum(SIZES)


class History(collections.namedtuple("History", "process whole again resumed beside nobody")):
  """All runs of one algorithm that the suite looks at, from one build.

  Attributes:
    process: what was run.
    whole: all rounds.
    again: the first three rounds, run a second time.
    resumed: rounds 10 to 12, resumed from a checkpoint after round 9.
    beside: the first three rounds, with clients without data in every cohort.
    nobody: one round after the same checkpoint, of clients without data only.
  """


@functools.cache
def compiled(name: str):
  """The process of an algorithm, with the suite's hyperparameters."""
  algorithm = algorithms.builder(name)(**arguments(name))
  return build_process(algorithm, quadratic_model(), work=LocalWork(epochs=2, weight_decay=1e-3))


@functools.cache
def history(name: str) -> History:
  """Runs an algorithm in all the ways that `History` lists."""
  process = compiled(name)
  kept = {}

  def run(cohorts, **start):
    return harness.run_process(process, cohorts, dataset=dataset, **start)

  first = run(COHORTS[:10])
  kept.update({i: as_arrays(state) for i, state in first.clients.items()})
  checkpoint = (as_arrays(first.states[-1]), kept, 10)
  rest = run(COHORTS[10:], start=(first.states[-1], first.clients, 10))
  return History(
    process,
    harness.Run(
      first.x + rest.x,
      first.states + rest.states,
      rest.clients,
      first.metrics + rest.metrics,
      process,
    ),
    run(COHORTS[:3]),
    run(COHORTS[10:13], start=checkpoint),
    run([(EMPTY[0], *cohort, EMPTY[1]) for cohort in COHORTS[:3]]),
    run([EMPTY], start=checkpoint),
  )


def as_arrays(structure):
  """Converts tensors to NumPy arrays, as a checkpoint holds them."""
  return tf.nest.map_structure(np.asarray, structure)
