"""Builds what a configuration says: task, algorithm, process, participation, diagnostics, client store."""

import dataclasses
import functools
import pathlib
from collections.abc import Callable, Mapping
from typing import NamedTuple

import tensorflow as tf

import tasks
from experiments.cli.references import CENTRALISED, LOCAL_ONLY
from experiments.cli.run_config import RunConfig
from experiments.cli.run_request import RunRequest
from experiments.training import (
  client_split,
  eval_subset,
  participation,
  pooled,
  private_run,
  remote_data,
  validation_split,
)
from experiments.training.client_eval import ClientEvaluation
from experiments.training.client_split import SplitTask
from experiments.training.local_models import LocalModels
from experiments.training.validation_split import Validation
from tasks.task import Task
from tff_momentum import algorithms, registry, wire_bytes
from tff_momentum.algorithm import Algorithm
from tff_momentum.client import LocalWork
from tff_momentum.diagnostics.measure import Measure
from tff_momentum.privacy import PrivacySpent
from tff_momentum.processes.process import FederatedProcess, build_process
from tff_momentum.simulation import loop
from tff_momentum.simulation.client_store import ClientStore, LmdbStore, MemoryStore
from tff_momentum.simulation.evaluation import column_evaluator
from tff_momentum.simulation.loop import RoundEvaluation
from tff_momentum.simulation.participation import Participation
from tff_momentum.transforms import by_name
from tff_momentum.transforms.asynchronous import asynchronous
from tff_momentum.transforms.compression import compressed, quantiser

# What stands for the task while hyperparameters are checked, before any data is loaded.
STAND_INS: dict[str, object] = {"client_learning_rate": 0.1, "num_clients": 10, "total_examples": 1000,
                                "participation": 0.1, "max_staleness": 10}  # fmt: skip
IN_MEMORY_BYTES = 2**30  # `--client_states=auto` keeps larger states on disk


class LoadedTask(NamedTuple):
  """A task as a run trains on it.

  Attributes:
    task: the training clients, without what is held out.
    validation: the held-out clients; None if there are none.
    split: the same clients with their held-out examples, if each client holds out some.
  """

  task: Task
  validation: Validation | None = None
  split: SplitTask | None = None


@dataclasses.dataclass(frozen=True)
class Experiment:
  """Everything that a run trains with.

  Attributes:
    config: the run's configuration.
    task: the training clients and the test data.
    process: the algorithm.
    participation: round number -> its cohort.
    measure: the diagnostics; None for none.
    evaluate: what an evaluation is: the columns `eval/...` and, with held-out clients, `validation/...`.
    validates: whether there are held-out clients.
    client_evaluation: the evaluation on clients' own data; None for none.
    privacy: what the rounds spend; None without differential privacy.
  """

  config: RunConfig
  task: Task
  process: FederatedProcess
  participation: Participation
  measure: Measure | None
  evaluate: RoundEvaluation
  validates: bool = False
  client_evaluation: ClientEvaluation | None = None
  privacy: PrivacySpent | None = None

  @property
  def has_one_model(self) -> bool:
    """Whether the server has a model to export; with `local_only`, every client has its own."""
    return self.config.algo != LOCAL_ONLY


def check_values(algo: str, hyperparameters: Mapping[str, object]) -> None:
  """Raises ValueError, before any data is loaded, for hyperparameters that the algorithm refuses.

  Only the builder knows the valid ranges, and it needs to know the task; so this calls it with stand-ins for
  the task and drops what it returns, a record of functions. Nothing is traced.
  """
  algorithms.build(algo, _arguments(algo, STAND_INS, hyperparameters))


def check_transforms(
  algo: str,
  hyperparameters: Mapping[str, object],
  transform: str | None,
  compression: str | None,
) -> None:
  """Raises ValueError, before any data is loaded, for transforms that do not fit the algorithm."""
  if transform is not None:
    algorithm = algorithms.build(algo, _arguments(algo, STAND_INS, hyperparameters))
    by_name.apply(algorithm, transform, _compression(compression))


def check_compression(text: str | None) -> None:
  """Raises ValueError for a compression that does not exist."""
  if text:
    quantiser(text)


def load_task(request: RunRequest) -> LoadedTask:
  """Loads the task; holds out clients with `--tune_on=validation`, and examples with `--client_eval_period`.

  With Ray, the data sets of the training clients are references that the actors resolve. The head evaluates,
  so it reads the held-out data. Centralised training reads all data at the head.
  """
  task, validation = tasks.load(request.task, seed=request.seed, **request.task_options), None
  if request.tune_on == "validation":
    task, validation = validation_split.hold_out(task)
  split = client_split.hold_out(task) if request.client_eval.period else None
  task = split.task if split else task
  if request.runtime.name == "ray" and request.algo != CENTRALISED:
    task = remote_data.by_reference(
      task, request.task, request.seed, request.task_options, splits_clients=split is not None
    )
    split = split and split._replace(task=task)
  return LoadedTask(task, validation, split)


def build_experiment(config: RunConfig, loaded: LoadedTask) -> Experiment:
  """Builds the process and what goes with it; raises ValueError for values that do not fit the task."""
  task = eval_subset.on_part(loaded.task, config.eval_examples)
  process = _process(config, task)
  training = pooled.pooled(task, config) if config.algo == CENTRALISED else task
  return Experiment(
    config,
    training,
    process,
    participation.build(config, task),
    _measure(config, process, task),
    _evaluation(config, process, task, loaded.validation),
    loaded.validation is not None,
    ClientEvaluation(config, process, loaded.split) if loaded.split else None,
    private_run.spent(config, process),
  )


def build_algorithm(
  algo: str,
  hyperparameters: Mapping[str, object],
  task: Task,
  clients_per_round: int,
  max_staleness: int | None = None,
) -> Algorithm:
  """Builds an algorithm for a task; the task's client learning rate is the default."""
  facts: dict[str, object] = {
    "client_learning_rate": task.defaults.client_learning_rate,
    "num_clients": len(task.clients),
    "total_examples": task.total_examples,
    "participation": clients_per_round / len(task.clients),
  }
  if max_staleness is not None:
    facts["max_staleness"] = max_staleness
  return algorithms.build(algo, _arguments(algo, facts, hyperparameters))


def client_store(config: RunConfig, process: FederatedProcess, folder: pathlib.Path) -> ClientStore:
  """Where the clients' states are kept; by default on disk if all of them together are large."""
  init = loop.client_initializer(process, config.seed)
  state_bytes = wire_bytes.dense_bytes(tf.nest.map_structure(tf.type_spec_from_value, init("")))
  where = config.output.client_states
  if where == "auto":
    where = "disk" if config.num_clients * state_bytes > IN_MEMORY_BYTES else "memory"
  if where == "memory":
    return MemoryStore(init)
  return LmdbStore(folder / "client_states", init)


def _process(config: RunConfig, task: Task) -> FederatedProcess:
  staleness = config.uneven.max_staleness
  algorithm = build_algorithm(
    config.algo, config.hyperparameters, task, config.clients_per_round, staleness
  )
  algorithm = by_name.apply(algorithm, config.transform, _compression(config.compression))
  if config.uneven.asynchronous and not algorithm.max_staleness and staleness:
    algorithm = asynchronous(algorithm, staleness)
  pool = config.algo == CENTRALISED  # whose data has as many batches as the round has steps
  work = LocalWork(
    epochs=1 if pool else config.client_epochs_per_round or 1,
    steps=None if pool else config.client_steps_per_round,
    weight_decay=config.weight_decay,
    clip_norm=config.client_clip_norm,
    uneven=not pool and config.uneven.client_steps_law is not None,
  )
  return build_process(
    algorithm,
    task.model,
    work=work,
    aggregator=private_run.aggregator(config),
    non_finite=config.non_finite,
  )


def _evaluation(
  config: RunConfig, process: FederatedProcess, task: Task, validation: Validation | None
) -> RoundEvaluation:
  data = validation and validation.data
  if data is not None and config.eval_examples:
    data = eval_subset.part_of(data, config.eval_examples)
  evaluate = column_evaluator(process.model, task.evaluation, data)
  if config.algo == LOCAL_ONLY:
    return LocalModels(config, task, evaluate)
  return lambda stored: evaluate(process.weights(stored.state))


def _compression(text: str | None) -> Callable[[Algorithm], Algorithm] | None:
  return functools.partial(compressed, compression=text) if text else None


def _measure(config: RunConfig, process: FederatedProcess, task: Task) -> Measure | None:
  options = config.diagnostics
  if not options.names:
    return None
  return Measure(
    process,
    task.clients,
    options.names,
    period=options.period,
    seed=config.seed,
    sample=options.clients,
    cohorts=options.cohorts,
    gradients=options.gradients,
  )


def _arguments(
  algo: str, facts: Mapping[str, object], hyperparameters: Mapping[str, object]
) -> dict[str, object]:
  """The builder's arguments: the hyperparameters, and the facts about the task that it asks for."""
  known = registry.info(algo).hyperparameters
  return {**{name: fact for name, fact in facts.items() if name in known}, **hyperparameters}
