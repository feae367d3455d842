"""One run: build it, resume it, train it with its hooks, and finish it."""

import contextlib
import pathlib
from collections.abc import Mapping, Sequence

import numpy as np

from experiments.cli import run_config
from experiments.cli.errors import as_user_errors
from experiments.cli.run_config import RunConfig
from experiments.cli.run_request import RunRequest
from experiments.runs import columns, final_value, metric, reader
from experiments.runs.folder import RunFolder
from experiments.training import build, export
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
from tff_momentum import algorithms
from tff_momentum.default_rates import reason
from tff_momentum.processes.process import ProcessState
from tff_momentum.runtime import set_execution_context
from tff_momentum.simulation import loop
from tff_momentum.simulation.checkpoints import Checkpoints
from tff_momentum.simulation.trainer import Hook, train

# The contents of a run's folder, for the closing words.
PARTS = ("config.json", "metrics.csv", "summary.json", "tensorboard/", "checkpoints/", "model_best/",
         "model_last/")  # fmt: skip


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
    with as_user_errors(RuntimeError):  # no GPU, no cluster, no worker
      set_execution_context(
        request.runtime.name,
        devices=request.runtime.devices,
        max_clients_in_flight=request.runtime.max_clients_in_flight,
        address=request.runtime.ray_address,
      )
    task = build.load_task(request)
    config = run_config.resolve(request, task)
    experiment = build.build_experiment(config, task)
    folder = RunFolder.open(config.output.root, config.as_json(), restart=config.output.restart)
  print(_derived_words(config), end="")
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
  best = BestModel(folder.path / "checkpoints" / "best.npz", process.weights)
  summary = _read_summary(folder)
  if first >= total:
    if summary is None:  # killed between its last round and its summary
      _finish(folder, experiment, state, best)
    print(f"{folder.path} is complete: {first} rounds. To continue, raise --total_rounds.")
    return 0
  if config.output.stop_on_divergence and summary is not None and summary.get("diverged"):
    print(_divergence_message(folder.path, first))
    return 0
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
  )
  del state  # states are large: do not keep the first one until the end
  hooks = [
    *_recorders(folder, experiment, first),
    best,
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
  _finish(folder, experiment, last.state, best)
  if divergence.diverged:
    print(_divergence_message(folder.path, done))
  return 0


def _recorders(folder: RunFolder, experiment: Experiment, first: int) -> Sequence[Hook]:
  """The hooks that record and show each round."""
  config = experiment.config
  board = folder.path / "tensorboard"
  found: list[Hook] = [MetricsCsv(folder)]
  if not config.output.lean:
    metrics = folder.path / "metrics.csv"
    found.append(TensorBoard(board, config.as_json(), experiment.task, metrics))
  if config.output.profile is not None:
    found.append(Profile(board, config.output.profile))
  if not config.output.quiet:
    found.append(ProgressBar(f"{config.task} {config.algo}", config.total_rounds, first))
  return found


def _header(experiment: Experiment) -> list[str]:
  """The columns of the run's metrics.csv."""
  metrics = experiment.process.next.type_signature.result.metrics.member.train._asdict()
  measured = list(experiment.participation(0).measurements)
  diagnostics = experiment.measure.columns if experiment.measure else []
  return columns.header(list(metrics), measured, diagnostics)


def _finish(
  folder: RunFolder, experiment: Experiment, state: ProcessState, best: BestModel
) -> None:
  """Exports the models, then writes the summary: a folder with a summary is complete."""
  config, process = experiment.config, experiment.process
  if not config.output.lean:
    weights = process.weights(state)
    export.export_both(folder.path, process.model, weights, best.weights(), config.as_json())
  folder.write_summary()
  print(_closing_words(folder.path))


def _derived_words(config: RunConfig) -> str:
  """The hyperparameters that were derived from the task, and why they are what they are."""
  if not config.derived:
    return ""
  chosen = ", ".join(f"{name}={config.hyperparameters[name]}" for name in config.derived)
  return f"{config.algo} on {config.task}: {chosen}. {reason(algorithms.builder(config.algo))}\n"


def _closing_words(folder: pathlib.Path) -> str:
  """The run's final value, its last evaluation, and the contents of its folder."""
  found = reader.read_metrics(folder / "metrics.csv")
  rounds = len(found["round"])
  ranked_by = metric.main_metric(reader.evaluated(found))
  said = f"Finished {rounds} rounds."
  if ranked_by is not None:
    value = final_value.final_value(found, ranked_by.column)
    over = final_value.window(rounds)
    said += f" Final {ranked_by.name} {value:.4g}, the mean over the last {over} rounds;"
    said += f" last evaluation: {_last_evaluation(found)}."
  there = ", ".join(name for name in PARTS if (folder / name).exists())
  return f"{said}\nThe run's folder is {folder}, with {there}."


def _last_evaluation(found: reader.Columns) -> str:
  names = [name for name in found if name in reader.evaluated(found)]
  last = {name: found[name][~np.isnan(found[name])][-1] for name in names}
  return ", ".join(f"{name.removeprefix('eval/')} {value:.4g}" for name, value in last.items())


def _divergence_message(folder: pathlib.Path, rounds: int) -> str:
  return (
    f"{folder} diverged in round {rounds}: its loss or all client updates were not finite. Lower the "
    "learning rates; --nostop_on_divergence continues regardless."
  )


def _read_summary(folder: RunFolder) -> Mapping[str, object] | None:
  """The summary of an earlier start, None if the run has not finished or the file is damaged."""
  try:
    return reader.read_summary(folder.path)
  except reader.UnusableRun:
    return None
