"""One run: build it, resume it, train it with its hooks, and finish it."""

import contextlib
import dataclasses
from collections.abc import Mapping, Sequence

from experiments.cli import run_config
from experiments.cli.errors import as_user_errors
from experiments.cli.references import CENTRALISED
from experiments.cli.run_config import RunConfig
from experiments.cli.run_request import RunRequest
from experiments.runs import columns, reader
from experiments.runs.divergence import has_diverged
from experiments.runs.folder import RunFolder
from experiments.training import build, ending
from experiments.training.build import Experiment
from experiments.training.hooks.best_model import BestModel
from experiments.training.hooks.checkpoint import SaveCheckpoint
from experiments.training.hooks.divergence import StopOnDivergence
from experiments.training.hooks.interruption import INTERRUPTED, StopOnSignal
from experiments.training.hooks.metrics_csv import MetricsCsv
from experiments.training.hooks.profile import Profile
from experiments.training.hooks.progress_bar import ProgressBar
from experiments.training.hooks.tensorboard import TensorBoard
from tasks.data.folders import DataError
from tff_momentum import registry
from tff_momentum.processes.process import ProcessState
from tff_momentum.runtime import set_execution_context
from tff_momentum.simulation import loop
from tff_momentum.simulation.checkpoints import Checkpoints
from tff_momentum.simulation.client_store import ClientStore
from tff_momentum.simulation.loop import StoredRound
from tff_momentum.simulation.trainer import Hook, train

DIVERGED = 3  # the exit code of a run that diverged


def run(request: RunRequest) -> int:
  """Runs or resumes an experiment.

  Returns:
    The exit code.

  Raises:
    UserError: the values are invalid for the algorithm or the task, data is missing or damaged, or the
      run's folder cannot be used.
  """
  with as_user_errors(ValueError, OSError):
    build.check_values(request.algo, request.hyperparameters)
    build.check_compression(request.compression)
    build.check_transforms(
      request.algo, request.hyperparameters, request.transform, request.compression
    )
    with as_user_errors(RuntimeError):  # no GPU, no cluster, no worker
      set_execution_context(
        request.runtime.name,
        devices=request.runtime.devices,
        max_clients_in_flight=request.runtime.max_clients_in_flight,
        address=request.runtime.ray_address,
        tf32=request.runtime.tf32,
        deterministic=request.runtime.deterministic,
        gpu_convolutions=request.runtime.gpu_convolutions,
        gpu_recurrent=request.runtime.gpu_recurrent,
      )
    loaded = build.load_task(request)
    held_out = loaded.validation.clients if loaded.validation else ()
    config = run_config.resolve(request, loaded.task, held_out)
    experiment = build.build_experiment(config, loaded)
    folder = RunFolder.open(config.output.root, config.as_json(), restart=config.output.restart)
  print(derived_words(config), end="")
  with contextlib.closing(folder), as_user_errors(OSError, DataError):
    return _run_in(folder, experiment)


def _run_in(folder: RunFolder, experiment: Experiment) -> int:
  """Runs the rounds that are left, in the run's folder."""
  config, process = experiment.config, experiment.process
  store = build.client_store(config, process, folder.path)
  checkpoints = Checkpoints(
    folder.path / "checkpoints", process, store, keep=config.output.keep_checkpoints
  )
  state = checkpoints.resume()
  first, total = int(state.round), config.total_rounds
  best = BestModel(folder.path / "checkpoints", process.weights, first)
  summary = _read_summary(folder)
  if first >= total:
    return _without_training(folder, experiment, state, store, best, summary)
  if config.output.stop_on_divergence and summary is not None and summary.get("diverged"):
    print(ending.divergence_message(folder.path, first))
    return DIVERGED
  with as_user_errors(ValueError):
    folder.start_metrics(_header(experiment), first)
  divergence = StopOnDivergence()
  rounds = loop.rounds(
    process,
    experiment.task,
    total_rounds=total,
    participation=experiment.participation,
    client_batch_size=config.client_batch_size,
    seed=config.seed,
    rounds_per_eval=config.rounds_per_eval,
    store=store,
    state=state,
    measure=experiment.measure,
    evaluate=experiment.evaluate,
    extra_columns=ending.extra_columns(experiment),
  )
  del state  # states are large: do not keep the first one until the end
  with as_user_errors(ValueError):  # of a tracker that does not start
    recorders = _recorders(folder, experiment, first)
  hooks = [
    *recorders,
    *([best] if experiment.has_one_model else []),
    *([divergence] if config.output.stop_on_divergence else []),
    StopOnSignal(),
    SaveCheckpoint(checkpoints),
  ]
  with contextlib.closing(rounds):
    last = train(rounds, hooks, rounds_per_save=config.output.rounds_per_checkpoint)
  assert last is not None, "there is at least one round to run"
  store.close()
  done = last.number + 1
  if done < total and not divergence.diverged:
    print(f"Stopped after round {done} of {total}; run the same command to resume.")
    return INTERRUPTED
  ending.finish(folder, experiment, last.state, best)
  if divergence.diverged:
    print(ending.divergence_message(folder.path, done))
  return DIVERGED if has_diverged(last.row) else 0


def _without_training(
  folder: RunFolder,
  experiment: Experiment,
  state: ProcessState,
  store: ClientStore,
  best: BestModel,
  summary: Mapping[str, object] | None,
) -> int:
  """Ends a run whose checkpoint has all the rounds that are asked for; returns the exit code.

  A checkpoint cannot be undone: with fewer rounds than it has, the run ends at the checkpoint.
  """
  rounds, config = int(state.round), experiment.config
  if config.total_rounds < rounds:
    print(
      f"{folder.path} has already finished and saved {rounds} rounds, more than "
      f"--total_rounds={config.total_rounds}; it ends at round {rounds}."
    )
    config = dataclasses.replace(config, total_rounds=rounds)
    experiment = dataclasses.replace(experiment, config=config)
    folder.write_config(config.as_json())
  if summary is None or summary.get("rounds") != rounds:  # killed before its summary was written
    with as_user_errors(ValueError):
      stored = StoredRound(rounds - 1, state, store)
      ending.end_at_checkpoint(folder, experiment, _header(experiment), stored, best)
    summary = _read_summary(folder)
  print(f"{folder.path} is complete: {rounds} rounds. To continue, raise --total_rounds.")
  return DIVERGED if summary is not None and summary.get("diverged") else 0


def _recorders(folder: RunFolder, experiment: Experiment, first: int) -> Sequence[Hook]:
  """The hooks that record and show each round."""
  config = experiment.config
  board = folder.path / "tensorboard"
  found: list[Hook] = [MetricsCsv(folder)]
  if not config.output.lean:
    metrics = folder.path / "metrics.csv"
    task = None if config.algo == CENTRALISED else experiment.task  # with the clients' labels
    found.append(TensorBoard(board, config.as_json(), task, metrics))
  if config.output.profile is not None:
    found.append(Profile(board, config.output.profile))
  if "wandb" in config.output.track:
    from experiments.training.hooks.wandb_tracker import WandbTracker

    quiet = config.output.quiet
    found.append(WandbTracker(folder.path, config.as_json(), config.total_rounds, quiet=quiet))
  if "mlflow" in config.output.track:
    from experiments.training.hooks.mlflow_tracker import MlflowTracker

    found.append(MlflowTracker(folder.path, config.as_json(), config.total_rounds))
  if not config.output.quiet:
    found.append(ProgressBar(f"{config.task} {config.algo}", config.total_rounds, first))
  return found


def _header(experiment: Experiment) -> list[str]:
  """The columns of the run's metrics.csv."""
  metrics = experiment.process.next.type_signature.result.metrics.member.train._asdict()
  measured = list(experiment.participation(0).measurements)
  diagnostics = experiment.measure.columns if experiment.measure else []
  return columns.header(
    list(metrics),
    measured,
    diagnostics,
    client_eval=experiment.client_evaluation.columns if experiment.client_evaluation else (),
    validation=experiment.validates,
    private=experiment.privacy is not None,
  )


def derived_words(config: RunConfig) -> str:
  """The values that were derived from the task, and why they are what they are."""
  said = ""
  if config.derived.values:
    chosen = ", ".join(f"{name}={config.hyperparameters[name]}" for name in config.derived.values)
    said = f"{config.algo} on {config.task}: {chosen}. {config.derived.reason}\n"
    if config.uneven.asynchronous and not registry.info(config.algo).asynchronous:
      said += (
        "These are the rates of synchronous rounds. Stale updates need smaller ones, momentum above all: see "
        "docs/uneven_clients.md.\n"
      )
  if config.steps_per_round is not None:
    said += (
      f"{config.algo} on {config.task}: {config.steps_per_round} steps per round, as many as a cohort of "
      f"{config.clients_per_round} average clients takes together.\n"
    )
  return said


def _read_summary(folder: RunFolder) -> Mapping[str, object] | None:
  """The summary of an earlier start, None if the run has not finished or the file is damaged."""
  try:
    return reader.read_summary(folder.path)
  except reader.UnusableRun:
    return None
