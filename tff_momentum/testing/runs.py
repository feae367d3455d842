"""Runs a process round by round on given cohorts, and compares what it leaves behind.

Nothing is hidden: no round loop, no prefetching, no checkpoint files. A check that fails here is about the
algorithm.
"""

import itertools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tff_momentum.processes.process import ClientInput, FederatedProcess, ProcessState
from tff_momentum.testing.oracle import Cohorts

# A state, the clients' states, and the number of the first round.
Start = tuple[ProcessState, Mapping[int, Any], int]


class RecordedRun(NamedTuple):
  """What a run leaves behind.

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


def run_process(
  process: FederatedProcess,
  cohorts: Cohorts,
  *,
  dataset: Callable[[int], Any],
  start: Start | None = None,
  steps: Mapping[int, int] | None = None,
) -> RecordedRun:
  """Runs a process on the cohorts, one round each.

  Args:
    process: made by `build_process`.
    cohorts: the client numbers of each round.
    dataset: client number -> its batches.
    start: where to resume from; None starts at round 0.
    steps: client number -> its local steps, if the process takes them; the default number for others.
  """
  state, known, first = start or (process.initialize(), {}, 0)
  clients = dict(known)
  run = RecordedRun([], [], clients, [], process)
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


def client_seed(round_number: int, client: int) -> np.ndarray:
  """A seed for each round and client."""
  return np.array([round_number + 1, client + 1], np.int32)


def flatten(weights: Any) -> np.ndarray:
  """A weight structure as one flat float64 vector."""
  return np.concatenate([np.asarray(w, np.float64).ravel() for w in tf.nest.flatten(weights)])


def as_arrays(structure: Any) -> Any:
  """Converts tensors to NumPy arrays, as a checkpoint holds them."""
  return tf.nest.map_structure(np.asarray, structure)


def kinds(structure: Any) -> list[tuple[tuple[int, ...], np.dtype]]:
  """The shape and dtype of each leaf."""
  return [(a.shape, a.dtype) for a in tf.nest.flatten(as_arrays(structure))]


def same_bits(left: Any, right: Any) -> bool:
  """Whether two structures are equal to the bit; raises an error if they are not alike."""
  tf.nest.assert_same_structure(left, right)
  return first_difference(left, right) is None


def first_difference(left: Any, right: Any, tolerance: float | None = None) -> str | None:
  """The name of the first leaf that differs, and by how much; None if none does.

  Args:
    left: a structure of tensors.
    right: a structure like it.
    tolerance: an absolute plus a relative one; None compares bits.

  >>> first_difference({"m": np.zeros(2)}, {"m": np.array([0.0, 0.5])})
  'm differs by 0.5'
  """
  for (name, a), (_, b) in zip(_leaves(left), _leaves(right), strict=True):
    if (a.shape, a.dtype) != (b.shape, b.dtype):
      return f"{name} is {a.dtype}{list(a.shape)} in one and {b.dtype}{list(b.shape)} in the other"
    if tolerance is None:
      equal = a.tobytes() == b.tobytes()
    else:
      equal = bool(np.allclose(a, b, rtol=tolerance, atol=tolerance, equal_nan=True))
    if not equal:
      with np.errstate(all="ignore"):
        return f"{name} differs by {np.max(np.abs(a.astype(float) - b.astype(float))):.2g}"
  return None


def _leaves(structure: Any) -> Iterator[tuple[str, np.ndarray]]:
  for path, leaf in _walk(structure, ()):
    yield "/".join(path) or "the value", np.asarray(leaf)


def _walk(structure: Any, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], Any]]:
  children: Iterable[tuple[str, Any]]
  if hasattr(structure, "_fields"):
    children = zip(structure._fields, structure, strict=True)
  elif isinstance(structure, Mapping):
    children = ((str(key), structure[key]) for key in sorted(structure, key=str))
  elif isinstance(structure, list | tuple):
    children = zip(map(str, itertools.count()), structure, strict=False)
  else:
    yield path, structure
    return
  for name, child in children:
    yield from _walk(child, (*path, name))
