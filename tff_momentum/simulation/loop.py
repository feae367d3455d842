"""The round loop: cohort, data, one step of the process, the clients' states, evaluation.

The next round's data is read while the present round trains; `seconds/data` is how long training waited.

A round's row of numbers has the names of `metrics.csv`: `train/loss`, `eval/accuracy`, `bytes/up`,
`seconds/round` and so on. Only the `seconds/...` differ between two runs with the same seed.
"""

import contextlib
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple, Protocol

import numpy as np
import tensorflow as tf

from tff_momentum import validation
from tff_momentum.processes.process import ClientInput, FederatedProcess, ProcessState
from tff_momentum.runtime import client_labels
from tff_momentum.simulation import participation as participation_lib
from tff_momentum.simulation import prefetch, seeds
from tff_momentum.simulation.client_store import MemoryStore
from tff_momentum.simulation.evaluation import evaluator
from tff_momentum.simulation.participation import Cohort

SECONDS = (
  "clock",
  "store",
  "data",
  "train",
  "diagnostics",
  "eval",
)  # the parts of a round that are timed


class FederatedTask(Protocol):
  """What the loop needs of a task; `tasks.task.Task` is one."""

  @property
  def clients(self) -> Sequence[str]:
    """The ids of all training clients."""

  @property
  def dataset(self) -> Callable[[str, np.ndarray, int], tf.data.Dataset]:
    """(client id, seed, batch size) -> the client's batches."""

  @property
  def evaluation(self) -> Callable[[int], tf.data.Dataset]:
    """Batch size -> the test data."""


class Round(NamedTuple):
  """A finished round: its number from 0, the state after it, and its row of metrics."""

  number: int
  state: ProcessState
  row: dict[str, float]


class TrainedRound(NamedTuple):
  """A round that was just trained, its clients' new states not yet stored.

  Attributes:
    round: its number, from 0.
    cohort: the ids of its clients.
    before, after: the states of the process.
    inputs: ids -> what these clients would bring to this round, their data unread.
  """

  round: int
  cohort: Sequence[str]
  before: ProcessState
  after: ProcessState
  inputs: Callable[[Sequence[str]], Sequence[ClientInput]]


RoundMeasure = Callable[[TrainedRound], dict[str, float]]


class RunResult(NamedTuple):
  """A finished run: the last state, the final weights, and the rows of all rounds."""

  state: ProcessState
  weights: Any
  history: list[dict[str, float]]


def run(process: FederatedProcess, task: FederatedTask, **options: Any) -> RunResult:
  """Runs all rounds and returns where they lead; `options` as `rounds` takes them."""
  last, history = None, []
  for last in rounds(process, task, **options):
    history.append(last.row)
  if last is None:
    raise ValueError("total_rounds must leave at least one round to run; found none.")
  return RunResult(last.state, process.weights(last.state), history)


def rounds(
  process: FederatedProcess,
  task: FederatedTask,
  *,
  total_rounds: int,
  clients_per_round: int | None = None,
  client_batch_size: int = 20,
  seed: int = 0,
  rounds_per_eval: int = 1,
  eval_batch_size: int = 256,
  participation: participation_lib.Participation | None = None,
  store: Any = None,
  state: ProcessState | None = None,
  measure: RoundMeasure | None = None,
) -> Iterator[Round]:
  """Runs the rounds one by one.

  Args:
    process: made by `build_process` for `task.model`.
    task: the clients and the test data.
    total_rounds: the round to stop before, counted from the very first.
    clients_per_round: S, for uniform sampling without replacement ...
    client_batch_size: examples a local step sees.
    seed: of cohorts, batches, dropout and quantisation.
    rounds_per_eval: evaluates after each so many rounds, and after the last; 0 means never.
    eval_batch_size: affects speed only.
    participation: ... or who takes part in which round, and with how much work.
    store: keeps the clients' states; by default in memory.
    state: to go on from; by default the process's initial state.
    measure: gives each round's row more numbers, as `diagnostics.measure.Measure` does.
  """
  validation.integer("total_rounds", total_rounds, at_least=1)
  validation.integer("client_batch_size", client_batch_size, at_least=1)
  validation.integer("rounds_per_eval", rounds_per_eval, at_least=0)
  if (participation is None) == (clients_per_round is None):
    raise ValueError("Give either clients_per_round or participation.")
  cohort_of = participation or participation_lib.uniform(
    len(task.clients), clients_per_round or 0, seed
  )
  if store is None:
    store = MemoryStore(client_initializer(process, seed))
  current = process.initialize() if state is None else state
  del state  # a state may be large: those of the past are let go of here, and below
  evaluate = evaluator(process.model, task.evaluation(eval_batch_size))
  bytes_so_far = sum(sum(_bytes(process, t, cohort_of(t))) for t in range(int(current.round)))

  def data_of(t: int, ids: Sequence[str]) -> list[tf.data.Dataset]:
    return [
      task.dataset(client, seeds.client_seed(seed, seeds.SHUFFLE, t, own_name), client_batch_size)
      for client, own_name in zip(ids, _own_names(ids), strict=True)
    ]

  def inputs(
    t: int, ids: Sequence[str], data: Sequence[tf.data.Dataset], told: list[Any]
  ) -> list[ClientInput]:
    own_seeds = [seeds.client_seed(seed, seeds.CLIENT, t, name) for name in _own_names(ids)]
    return [
      ClientInput(seed=own_seed, state=client_state, data=batches, **own)
      for own_seed, client_state, batches, own in zip(
        own_seeds, store.load(ids), data, told, strict=True
      )
    ]

  def visit(t: int, ids: Sequence[str], cohort: Cohort, before: Any, after: Any) -> TrainedRound:
    def others(chosen: Sequence[str]) -> list[ClientInput]:
      those = cohort if list(chosen) == list(ids) else Cohort(list(range(len(chosen))))
      return inputs(t, chosen, data_of(t, chosen), _told(process, those))

    return TrainedRound(t, ids, before, after, others)

  def read(t: int) -> "_Reading":
    begin = time.perf_counter()
    cohort = cohort_of(t)
    spent = time.perf_counter() - begin
    ids = [task.clients[i] for i in cohort.clients]
    return _Reading(cohort, spent, ids, data_of(t, ids))

  first = int(current.round)
  if first >= total_rounds:
    return
  with contextlib.closing(prefetch.Prefetcher(read, first, total_rounds - 1)) as ahead:
    for t in range(first, total_rounds):
      watch = Stopwatch()
      with watch.timing("data"):
        cohort, watch.spent["clock"], ids, data = ahead.get(t)
      row: dict[str, float] = {"round": t + 1}
      if ids:
        with watch.timing("store"):
          clients = inputs(t, ids, data, _told(process, cohort))
        labels = [f"{process.algorithm.name}: client {client}" for client in ids]
        before = current
        with watch.timing("train"), client_labels(labels.__getitem__):
          current, client_states, metrics = process.next(current, clients)
        if measure is not None:
          with watch.timing("diagnostics"):
            row.update(measure(visit(t, ids, cohort, before, current)))
        del before
        with watch.timing("store"):
          store.save(ids, client_states, t)
        row.update((f"train/{name}", float(value)) for name, value in metrics["train"].items())
      else:  # nobody is left: the round only counts
        current = current._replace(round=np.int32(t + 1))
        metrics = {"clients": 0, "non_finite": 0, "update_norm": 0.0}

      down, up = _bytes(process, t, cohort)
      bytes_so_far += down + up
      if rounds_per_eval and ((t + 1) % rounds_per_eval == 0 or t + 1 == total_rounds):
        with watch.timing("eval"):
          values = evaluate(process.weights(current))
        row.update((f"eval/{name}", v) for name, v in values.items() if name != "num_examples")
      row.update(
        {
          "bytes/down": down,
          "bytes/up": up,
          "bytes/total": bytes_so_far,
          "clients": int(metrics["clients"]),
          "clients/non_finite": int(metrics["non_finite"]),
          "update_norm": float(metrics["update_norm"]),
          **cohort.measurements,
          **{f"seconds/{part}": spent for part, spent in watch.spent.items()},
        }
      )
      if not cohort.measurements:
        del row["seconds/clock"]  # drawing a plain cohort takes no time worth a column
      if measure is None:
        del row["seconds/diagnostics"]
      yield Round(t, current, row)


class _Reading(NamedTuple):
  """A round's cohort, the seconds that it took to draw, its clients, and their data."""

  cohort: Cohort
  seconds: float
  ids: list[str]
  data: list[tf.data.Dataset]


def _bytes(process: FederatedProcess, t: int, cohort: Cohort) -> tuple[int, int]:
  """What a round's clients download and upload; who drops out has downloaded all the same."""
  reported = len(cohort.clients)
  return process.bytes_down(t) * (reported + cohort.unreported), process.bytes_up(t) * reported


def _told(process: FederatedProcess, cohort: Cohort) -> list[dict[str, Any]]:
  """What each client of a cohort is told beside the message, as `ClientInput` has it."""
  said = {"steps": cohort.steps, "staleness": cohort.staleness}
  takes = {"steps": process.takes_steps, "staleness": process.takes_staleness}
  for name, values in said.items():
    if values is not None and not takes[name]:
      raise ValueError(
        f"The participation gives clients {name} of their own; expected a process that takes them: "
        "build it with LocalWork(uneven=True), or of an asynchronous algorithm."
      )
  oldest, limit = max(cohort.staleness or [0]), process.algorithm.max_staleness
  if oldest > limit:
    raise ValueError(
      f"Expected clients that started up to max_staleness={limit} rounds ago; found one from {oldest} "
      "rounds ago: build the algorithm with a larger max_staleness."
    )
  columns = {n: said[n] or [0] * len(cohort.clients) for n in said if takes[n]}
  return [
    {name: np.int32(values[k]) for name, values in columns.items()}
    for k in range(len(cohort.clients))
  ]


def _own_names(ids: Sequence[str]) -> list[str]:
  """A name for each place in a cohort, so that who is there twice has other batches the second time."""
  seen: dict[str, int] = {}
  names = []
  for client in ids:
    again = seen[client] = seen.get(client, -1) + 1
    names.append(f"{client}, again {again}" if again else client)
  return names


class Stopwatch:
  """Adds up the seconds that the parts of a round take."""

  def __init__(self) -> None:
    self.spent = dict.fromkeys(SECONDS, 0.0)

  @contextlib.contextmanager
  def timing(self, part: str) -> Iterator[None]:
    """Counts what happens inside towards this part."""
    started = time.perf_counter()
    yield
    self.spent[part] += time.perf_counter() - started


def client_initializer(process: FederatedProcess, seed: int) -> Callable[[str], Any]:
  """The state of a client that was never seen before, by its id."""
  return lambda client: process.initial_client_state(
    seeds.client_seed(seed, seeds.NEW_CLIENT, 0, client)
  )
