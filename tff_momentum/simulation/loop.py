"""The round loop: select a cohort, read its data, train, store the clients' states, evaluate.

The next round's data is read while the current round trains; `seconds/data` is how long training waited.

Each round yields a row of numbers under the names of `metrics.csv`: `train/loss`, `eval/accuracy`,
`bytes/up`, `seconds/train` and so on. Two runs with the same seed differ only in the `seconds/...` columns.
"""

import contextlib
import functools
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from typing import NamedTuple, NotRequired, Required, TypedDict, Unpack

import numpy as np
import tensorflow as tf

from tff_momentum import validation
from tff_momentum.models.model import Weights
from tff_momentum.processes.process import ClientInput, FederatedProcess, ProcessState
from tff_momentum.runtime import client_labels
from tff_momentum.simulation import participation as participation_lib
from tff_momentum.simulation import seeds
from tff_momentum.simulation.client_store import ClientStore, MemoryStore
from tff_momentum.simulation.cohort_reader import CohortReader, FederatedTask
from tff_momentum.simulation.evaluation import column_evaluator
from tff_momentum.simulation.participation import Cohort, Participation
from tff_momentum.simulation.prefetch import Prefetcher
from tff_momentum.simulation.state_records import State

# The parts of a round that are timed; the columns are `seconds/clock` and so on.
TIMED_PARTS = ("clock", "store", "data", "train", "diagnostics", "eval")


class Round(NamedTuple):
  """A finished round.

  Attributes:
    number: from 0.
    state: the state of the process after the round.
    row: the round's metrics by column name.
  """

  number: int
  state: ProcessState
  row: dict[str, float]


class TrainedRound(NamedTuple):
  """A round after training, before its clients' new states are stored; diagnostics measure it.

  Attributes:
    round: the number of the round, from 0.
    cohort: the ids of its clients.
    before: the state of the process before the round.
    after: the state of the process after the round.
    inputs: client ids -> what these clients would bring to this round, with their data unread.
  """

  round: int
  cohort: Sequence[str]
  before: ProcessState
  after: ProcessState
  inputs: Callable[[Sequence[str]], Sequence[ClientInput]]


RoundMeasure = Callable[[TrainedRound], dict[str, float]]


class StoredRound(NamedTuple):
  """A round after its clients' new states are stored; evaluations read it.

  Attributes:
    round: the number of the round, from 0.
    state: the state of the process after the round.
    store: the clients' states after the round.
  """

  round: int
  state: ProcessState
  store: ClientStore


RoundEvaluation = Callable[[StoredRound], dict[str, float]]


class RunResult(NamedTuple):
  """A finished run.

  Attributes:
    state: the last state of the process.
    weights: the final weights of the model.
    history: the metrics of all rounds, in order.
  """

  state: ProcessState
  weights: Weights
  history: list[dict[str, float]]


class RoundOptions(TypedDict):
  """The keyword arguments of `rounds`."""

  total_rounds: Required[int]
  clients_per_round: NotRequired[int | None]
  client_batch_size: NotRequired[int]
  seed: NotRequired[int]
  rounds_per_eval: NotRequired[int]
  eval_batch_size: NotRequired[int]
  participation: NotRequired[Participation | None]
  store: NotRequired[ClientStore | None]
  state: NotRequired[ProcessState | None]
  measure: NotRequired[RoundMeasure | None]
  validation_data: NotRequired[Callable[[int], tf.data.Dataset] | None]
  evaluate: NotRequired[RoundEvaluation | None]
  extra_columns: NotRequired[RoundEvaluation | None]


def run(
  process: FederatedProcess, task: FederatedTask, **options: Unpack[RoundOptions]
) -> RunResult:
  """Trains for all rounds.

  Args:
    process: made by `build_process`.
    task: the clients and the test data.
    **options: keyword arguments of `rounds`; `total_rounds` and one of `clients_per_round` and
      `participation` are required.

  Returns:
    The last state, the final weights and the metrics of every round.

  Raises:
    ValueError: an option is out of range, or `state` has already reached `total_rounds`.

  Example:
    >>> import types
    >>> import tensorflow as tf
    >>> import tff_momentum as tfm
    >>> tfm.set_execution_context("inprocess")
    >>> def examples(client, seed, batch_size):
    ...   x = tf.random.stateless_normal([20, 2], [ord(client), 0])
    ...   y = x @ [[1.0], [-2.0]]
    ...   return tf.data.Dataset.from_tensor_slices((x, y)).batch(batch_size)
    >>> task = types.SimpleNamespace(
    ...   clients=["a", "b", "c"],
    ...   dataset=examples,
    ...   evaluation=lambda batch_size: examples("t", None, batch_size),
    ... )
    >>> model = tfm.from_keras(
    ...   lambda: tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=[2])]),
    ...   loss=tf.keras.losses.MeanSquaredError(),
    ...   batch_spec=(tf.TensorSpec([None, 2]), tf.TensorSpec([None, 1])),
    ... )
    >>> process = tfm.build_process(tfm.algorithms.fedavg(client_learning_rate=0.1), model)
    >>> result = run(process, task, total_rounds=10, clients_per_round=2, client_batch_size=5)
    >>> len(result.history), result.history[-1]["eval/loss"] < 0.1
    (10, True)
  """
  last, history = None, []
  for last in rounds(process, task, **options):
    history.append(last.row)
  if last is None:
    raise ValueError(
      "Expected at least one round to run; found a state that has already reached "
      f"total_rounds={options['total_rounds']}: ask for more rounds."
    )
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
  participation: Participation | None = None,
  store: ClientStore | None = None,
  state: ProcessState | None = None,
  measure: RoundMeasure | None = None,
  validation_data: Callable[[int], tf.data.Dataset] | None = None,
  evaluate: RoundEvaluation | None = None,
  extra_columns: RoundEvaluation | None = None,
) -> Generator[Round, None, None]:
  """Trains round by round, for code that does something of its own after each round.

  Args:
    process: made by `build_process`.
    task: the clients and the test data.
    total_rounds: number of rounds of the whole run, including those before `state`.
    clients_per_round: S, for cohorts drawn uniformly without replacement. Give either this or
      `participation`.
    client_batch_size: examples in a batch of a local step.
    seed: random seed for the whole run: cohorts, batches, dropout, quantisation.
    rounds_per_eval: number of rounds between evaluations; the last round is always evaluated. 0 means
      never.
    eval_batch_size: examples in a batch of the evaluation; affects speed only.
    participation: round number -> its cohort; see `simulation.participation` and `simulation.clock`.
    store: where clients' states are kept; in memory by default.
    state: the state to continue from; the initial state by default. `store` must hold the clients'
      states of the same round.
    measure: adds columns to a round's row; see `diagnostics.measure.Measure`.
    validation_data: batch size -> batches of data to choose hyperparameters by, such as the data of clients
      that never train. Each evaluation then adds columns `validation/...`.
    evaluate: what an evaluation is, instead of the server's model on the test data and `validation_data`.
    extra_columns: called after every round; adds the columns that it returns to the row of the round. See
      `diagnostics.client_evaluation`.

  Yields:
    Each round when it is finished.

  Raises:
    ValueError: an option is out of range, or the cohorts do not fit the process.

  Example, for a `process` and a `task` as in the example of `run`::

      for finished in rounds(process, task, total_rounds=100, clients_per_round=10):
        print(finished.number, finished.row["train/loss"])
  """
  validation.integer("total_rounds", total_rounds, at_least=1)
  validation.integer("client_batch_size", client_batch_size, at_least=1)
  validation.integer("rounds_per_eval", rounds_per_eval, at_least=0)
  if (participation is None) == (clients_per_round is None):
    raise ValueError("Give either clients_per_round or participation.")
  if participation is None:
    participation = participation_lib.uniform(len(task.clients), clients_per_round or 0, seed)
  if store is None:
    store = MemoryStore(client_initializer(process, seed))
  current = process.initialize() if state is None else state
  del state  # states may be large: past ones are freed as soon as possible, here and below
  first = int(current.round)
  if first >= total_rounds:
    return
  cohorts = CohortReader(process, task, participation, store, seed, client_batch_size)
  if evaluate is None:
    evaluate_weights = column_evaluator(
      process.model, task.evaluation, validation_data, eval_batch_size
    )
    evaluate = lambda stored: evaluate_weights(process.weights(stored.state))  # noqa: E731
  total_bytes = sum(sum(_bytes(process, t, participation(t))) for t in range(first))

  with contextlib.closing(Prefetcher(cohorts.read, first, total_rounds - 1)) as prefetcher:
    for t in range(first, total_rounds):
      stopwatch = Stopwatch()
      with stopwatch.timing("data"):
        read = prefetcher.get(t)
      stopwatch.seconds["clock"] = read.clock_seconds
      row: dict[str, float] = {"round": t + 1}

      if read.ids:
        with stopwatch.timing("store"):
          clients = cohorts.inputs(read)
        labels = [f"{process.algorithm.name}: client {client}" for client in read.ids]
        before = current
        with stopwatch.timing("train"), client_labels(labels.__getitem__):
          current, client_states, metrics = process.next(before, clients)
        if measure is not None:
          with stopwatch.timing("diagnostics"):
            inputs = functools.partial(cohorts.fresh_inputs, read)
            row.update(measure(TrainedRound(t, read.ids, before, current, inputs)))
        del before
        with stopwatch.timing("store"):
          store.save(read.ids, client_states, t)
        row.update((f"train/{name}", float(value)) for name, value in metrics["train"].items())
      else:  # an empty cohort: the round is counted and changes nothing else
        current = current._replace(round=np.int32(t + 1))
        metrics = {"clients": 0, "non_finite": 0, "update_norm": 0.0}

      if rounds_per_eval and ((t + 1) % rounds_per_eval == 0 or t + 1 == total_rounds):
        with stopwatch.timing("eval"):
          row.update(evaluate(StoredRound(t, current, store)))
      if extra_columns is not None:
        with stopwatch.timing("eval"):
          row.update(extra_columns(StoredRound(t, current, store)))

      down, up = _bytes(process, t, read.cohort)
      total_bytes += down + up
      row.update(
        {
          "bytes/down": down,
          "bytes/up": up,
          "bytes/total": total_bytes,
          "clients": int(metrics["clients"]),
          "clients/non_finite": int(metrics["non_finite"]),
          "update_norm": float(metrics["update_norm"]),
          **read.cohort.measurements,
          **{f"seconds/{part}": spent for part, spent in stopwatch.seconds.items()},
        }
      )
      if not read.cohort.measurements:
        del row["seconds/clock"]  # a plain cohort takes no noticeable time to draw
      if measure is None:
        del row["seconds/diagnostics"]
      yield Round(t, current, row)


def client_initializer(process: FederatedProcess, seed: int) -> Callable[[str], State]:
  """Returns the function that a `ClientStore` calls for a client that takes part for the first time.

  Args:
    process: knows the client state of its algorithm.
    seed: the run's seed.

  Returns:
    client id -> the client's initial state.
  """
  return lambda client: process.initial_client_state(
    seeds.client_seed(seed, seeds.NEW_CLIENT, 0, client)
  )


class Stopwatch:
  """Adds up the wall-clock time of the parts of a round.

  Attributes:
    seconds: by part, one of `TIMED_PARTS`.
  """

  def __init__(self) -> None:
    self.seconds = dict.fromkeys(TIMED_PARTS, 0.0)

  @contextlib.contextmanager
  def timing(self, part: str) -> Iterator[None]:
    """Adds the time spent inside the `with` block to a part."""
    started = time.perf_counter()
    yield
    self.seconds[part] += time.perf_counter() - started


def _bytes(process: FederatedProcess, t: int, cohort: Cohort) -> tuple[int, int]:
  """What a round's clients download and upload; clients that drop out have downloaded too."""
  reported = len(cohort.clients)
  return process.bytes_down(t) * (reported + cohort.unreported), process.bytes_up(t) * reported
