"""What the clients of a cohort bring to a round: seeds, states, batches, their own steps and staleness."""

import time
from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from tff_momentum.processes.process import ClientInput, FederatedProcess
from tff_momentum.runtime.batch_path import Data
from tff_momentum.simulation import seeds
from tff_momentum.simulation.client_store import ClientStore
from tff_momentum.simulation.participation import Cohort, Participation


class FederatedTask(Protocol):
  """What the round loop needs from a task. Any object with these attributes will do."""

  @property
  def clients(self) -> Sequence[str]:
    """The ids of all training clients."""

  @property
  def dataset(self) -> Callable[[str, np.ndarray, int], Data]:
    """(client id, seed, batch size) -> the client's batches."""

  @property
  def evaluation(self) -> Callable[[int], tf.data.Dataset]:
    """Batch size -> the batches of the test data."""


class ReadCohort(NamedTuple):
  """A cohort with its data, before its clients' states are loaded."""

  round: int
  cohort: Cohort
  clock_seconds: float  # how long selecting the cohort took
  ids: list[str]
  data: list[Data]


class CohortReader:
  """Prepares what the clients of a cohort bring to a round."""

  def __init__(
    self,
    process: FederatedProcess,
    task: FederatedTask,
    participation: Participation,
    store: ClientStore,
    seed: int,
    batch_size: int,
  ):
    """Reads nothing yet.

    Args:
      process: takes the inputs.
      task: opens a client's data.
      participation: round number -> its cohort.
      store: the clients' states.
      seed: the run's seed.
      batch_size: examples in a batch of a local step.
    """
    self._process, self._task, self._participation = process, task, participation
    self._store, self._seed, self._batch_size = store, seed, batch_size

  def read(self, t: int) -> ReadCohort:
    """Selects a round's cohort and opens its data; runs on the prefetching thread."""
    started = time.perf_counter()
    cohort = self._participation(t)
    seconds = time.perf_counter() - started
    ids = [self._task.clients[i] for i in cohort.clients]
    return ReadCohort(t, cohort, seconds, ids, self._open(t, ids))

  def inputs(self, read: ReadCohort) -> list[ClientInput]:
    """Loads the clients' states and puts their inputs to the process together."""
    names = _distinct_names(read.ids)
    return [
      ClientInput(seed=seed, state=client_state, data=batches, **extra)
      for seed, client_state, batches, extra in zip(
        seeds.client_seeds(self._seed, seeds.CLIENT, read.round, names),
        self._store.load(read.ids),
        read.data,
        _steps_and_staleness(self._process, read.cohort),
        strict=True,
      )
    ]

  def fresh_inputs(self, read: ReadCohort, ids: Sequence[str]) -> list[ClientInput]:
    """What any clients would bring to the round of `read`, with data sets that nobody has read from.

    Clients outside the cohort take the default number of steps and start in this round.
    """
    cohort = read.cohort if list(ids) == read.ids else Cohort(list(range(len(ids))))
    data = self._open(read.round, ids)
    return self.inputs(read._replace(cohort=cohort, ids=list(ids), data=data))

  def _open(self, t: int, ids: Sequence[str]) -> list[Data]:
    shuffles = seeds.client_seeds(self._seed, seeds.SHUFFLE, t, _distinct_names(ids))
    return [
      self._task.dataset(client, seed, self._batch_size)
      for client, seed in zip(ids, shuffles, strict=True)
    ]


def _steps_and_staleness(process: FederatedProcess, cohort: Cohort) -> list[dict[str, np.int32]]:
  """The fields `steps` and `staleness` of each client's `ClientInput`, where the process takes them."""
  given = {"steps": cohort.steps, "staleness": cohort.staleness}
  takes = {"steps": process.takes_steps, "staleness": process.takes_staleness}
  remedy = {
    "steps": "build it with LocalWork(uneven=True)",
    "staleness": "build it from an asynchronous algorithm",
  }
  for name, values in given.items():
    if values is not None and not takes[name]:
      raise ValueError(
        f"Expected a process that takes the {name} of each client, which the participation sets; found "
        f"one that does not: {remedy[name]}."
      )
  oldest, limit = max(cohort.staleness or [0]), process.algorithm.max_staleness
  if oldest > limit:
    raise ValueError(
      f"Expected clients that started up to max_staleness={limit} rounds ago; found one from {oldest} "
      "rounds ago: build the algorithm with a larger max_staleness."
    )
  columns = {n: given[n] or [0] * len(cohort.clients) for n in given if takes[n]}
  if not columns:
    return [{}] * len(cohort.clients)
  return [
    {name: np.int32(values[k]) for name, values in columns.items()}
    for k in range(len(cohort.clients))
  ]


def _distinct_names(ids: Sequence[str]) -> list[str]:
  """One name for each place in a cohort: a client that is there twice gets other batches the second time."""
  seen: dict[str, int] = {}
  names = []
  for client in ids:
    again = seen[client] = seen.get(client, -1) + 1
    names.append(f"{client}, again {again}" if again else client)
  return names
