"""The small problem on which the product is compared with the oracle, and functions that run it.

The problem is softmax regression with two weight tensors. Its five clients have very different sizes, ragged
last batches, and in one case no data. The oracle sees the same examples in float64 NumPy and uses a gradient
written by hand.
"""

import collections
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tests.oracle import Problem
from tff_momentum.client import LocalWork
from tff_momentum.models.model import Model, Tally
from tff_momentum.processes.process import (
  ClientInput,
  FederatedProcess,
  ProcessState,
  build_process,
)

FEATURES, CLASSES, BATCH = 3, 4, 3
SIZES = (7, 4, 1, 12, 0)
COHORTS = ([0, 1, 3], [2, 3, 4], [3, 0, 2])
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


def oracle_problem(**work) -> Problem:
  """The same problem for the oracle; `work` is any of epochs, steps and weight_decay."""

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
  return Problem(
    x0=flatten(initial_weights()),
    clients=clients,
    gradient=gradient,
    size=lambda b: len(b[1]),
    splits=tuple(int(np.prod(shape)) for shape in _SHAPES),
    shapes=_SHAPES,
    **work,
  )


def flatten(weights) -> np.ndarray:
  """A weight structure as one flat float64 vector."""
  return np.concatenate([np.asarray(w, np.float64).ravel() for w in tf.nest.flatten(weights)])


def client_dataset(i: int) -> tf.data.Dataset:
  """The batches of client i, in a fixed order."""
  return tf.data.Dataset.from_tensor_slices(client_examples(i)).batch(BATCH)


def client_seed(round_number: int, client: int) -> np.ndarray:
  """A seed for each round and client."""
  return np.array([round_number + 1, client + 1], np.int32)


class Run(NamedTuple):
  """A run of the product.

  Attributes:
    x: the flat model after each round.
    states: the state of the process after each round.
    clients: client number -> its last state.
    metrics: the metrics of each round.
    process: what was run.
  """

  x: list[np.ndarray]
  states: list[ProcessState]
  clients: dict[int, Any]
  metrics: list[Any]
  process: FederatedProcess


def run_product(
  algorithm, cohorts=COHORTS, *, model=None, aggregator=None, start=None, **work
) -> Run:
  """Builds the process of an algorithm and runs it; `start` is that of `run_process`."""
  process = build_process(
    algorithm, model or softmax_model(), work=LocalWork(**work), aggregator=aggregator
  )
  return run_process(process, cohorts, start=start)


def run_process(process, cohorts=COHORTS, *, start=None, dataset=client_dataset, steps=None) -> Run:
  """Runs a process on the cohorts, one round each.

  Args:
    process: made by `build_process`.
    cohorts: client numbers of each round.
    start: (state, client states, number of the first round) to resume from; None starts at round 0.
    dataset: client number -> its batches.
    steps: client number -> its local steps, if the process takes them; the default number for others.
  """
  state, clients, first = start or (process.initialize(), {}, 0)
  clients = dict(clients)
  run = Run([], [], clients, [], process)
  for t, cohort in enumerate(cohorts, first):
    for i in cohort:
      clients.setdefault(i, process.initial_client_state(client_seed(0, i)))
    now = {"staleness": np.int32(0)} if process.takes_staleness else {}
    inputs = [ClientInput(client_seed(t, i), clients[i], dataset(i), **now) for i in cohort]
    if process.takes_steps:
      own = [np.int32((steps or {}).get(i, 0)) for i in cohort]
      inputs = [each._replace(steps=k) for each, k in zip(inputs, own, strict=True)]
    output = process.next(state, inputs)
    state = output.state
    clients.update(zip(cohort, output.clients, strict=True))
    run.x.append(flatten(process.weights(state)))
    run.states.append(state)
    run.metrics.append(output.metrics)
  return run


def assert_same_models(actual, expected, tolerance=1e-5):
  """Asserts that the models after every round agree within an absolute plus a relative tolerance."""
  assert len(actual) == len(expected)
  for t, (a, b) in enumerate(zip(actual, expected, strict=True)):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=f"round {t}")
