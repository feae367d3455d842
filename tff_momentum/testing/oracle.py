"""What a NumPy version of an algorithm gets and returns, and helpers to write one with.

All arithmetic is float64 on the flat model. The letters: x is the server's model, y a local iterate, b a
batch, g(y; b) its gradient, G_i(x) a client's full gradient, E[.] the cohort's mean, K_i the local steps of
client i. Nothing here is used by the library, so a comparison compares two readings of the paper. FedAvg:

    >>> def fedavg(problem, cohorts, *, client_learning_rate):
    ...   x, after = problem.x0, {}
    ...   for t, S in rounds(problem, cohorts):
    ...     deltas = []
    ...     for i in S:
    ...       y = x
    ...       for b in batches(problem, i):
    ...         y = y - client_learning_rate * g(problem, y, b)
    ...       deltas.append(x - y)
    ...     x = after[t] = x - mean(problem, S, "uniform")(deltas)
    ...   return trace(problem, cohorts, after)

`compare_with_oracle` runs it on the same clients as the TensorFlow version.
"""

from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, islice
from typing import Any, NamedTuple

import numpy as np

Rate = float | Callable[[int], float]
Cohorts = Sequence[Sequence[int]]


class OracleProblem(NamedTuple):
  """A federated problem: the initial model, the clients' batches, and how to differentiate."""

  x0: np.ndarray  # flat initial model
  clients: list[list[Any]]  # clients[i]: one pass over the client's batches, in order; may be empty
  gradient: Callable[[np.ndarray, Any], np.ndarray]  # mean over the batch, without weight decay
  size: Callable[[Any], int]  # examples in a batch
  splits: tuple[int, ...]  # sizes of the model's tensors, in flat order
  epochs: int = 1  # local passes per round ...
  steps: int | None = None  # ... or a fixed number of steps, cycling through the batches
  weight_decay: float = 0.0
  clip_norm: float | None = None  # of a local step's gradient, before weight decay is added
  shapes: tuple[tuple[int, ...], ...] = ()  # of the model's tensors; vectors of `splits` if empty


class OracleTrace(NamedTuple):
  """The result of an oracle."""

  x: list[np.ndarray]  # the server's model after each round
  server: dict[str, Any]  # final server statistics by letter
  clients: dict[int, Any]  # final states of the clients that took part, by number


def at(value: Rate, t: int) -> float:
  """The value of a constant or a schedule in round t, counted from 0."""
  return value(t) if callable(value) else value


def examples(problem: OracleProblem, i: int) -> int:
  """n_i: the examples of client i, counted once whatever the number of epochs."""
  return sum(problem.size(b) for b in problem.clients[i])


def batches(problem: OracleProblem, i: int) -> list[Any]:
  """The batches of client i's local steps; their number is K_i."""
  if problem.steps is None:
    return problem.clients[i] * problem.epochs
  return list(islice(cycle(problem.clients[i]), problem.steps))


def g(problem: OracleProblem, y: np.ndarray, b: Any) -> np.ndarray:
  """g(y; b) of a local step: clipped, then with weight decay."""
  gradient = problem.gradient(y, b)
  if problem.clip_norm is not None and (length := np.sqrt(np.sum(gradient**2))) > problem.clip_norm:
    gradient = gradient * problem.clip_norm / length
  return gradient + problem.weight_decay * y


def G(problem: OracleProblem, i: int, x: np.ndarray) -> np.ndarray:
  """G_i(x): the mean over all examples of client i, so that a ragged batch counts by its size."""
  total = sum(problem.size(b) * problem.gradient(x, b) for b in problem.clients[i])
  return total / examples(problem, i) + problem.weight_decay * x


def rounds(problem: OracleProblem, cohorts: Cohorts) -> Iterator[tuple[int, list[int]]]:
  """The rounds in which some client has examples, each with those clients."""
  for t, cohort in enumerate(cohorts):
    if S := [int(i) for i in cohort if examples(problem, int(i))]:
      yield t, S


def mean(problem: OracleProblem, S: list[int], weighting: str) -> Callable[[Sequence[Any]], Any]:
  """E[.] over the clients S: takes one value per client, in the order of S."""
  if weighting not in ("uniform", "num_examples"):
    raise ValueError(f"Expected client_weighting 'uniform' or 'num_examples', found {weighting!r}.")
  n = [examples(problem, i) if weighting == "num_examples" else 1 for i in S]
  return lambda values: sum(w * v for w, v in zip(n, values, strict=True)) / sum(n)


def trace(
  problem: OracleProblem,
  cohorts: Cohorts,
  after: dict[int, np.ndarray],
  server: dict[str, Any] | None = None,
  clients: dict[int, Any] | None = None,
) -> OracleTrace:
  """An OracleTrace from the models `after` the rounds that happened; the others repeat the last one."""
  x, xs = problem.x0, []
  for t in range(len(cohorts)):
    x = after.get(t, x)
    xs.append(x)
  return OracleTrace(xs, server or {}, clients or {})
