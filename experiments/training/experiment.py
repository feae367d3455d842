"""One experiment: from checked flags to a trained model and its folder."""

import ast
import contextlib
import pathlib
import signal
import sys
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tqdm

import tasks
from experiments.cli import diagnostics as diagnosing
from experiments.cli import scale, uneven_clients
from experiments.cli.errors import UserError, as_user_errors, unknown_name
from experiments.cli.flags import ALGORITHM_FLAGS, STAND_INS, TASK_FLAGS, assignments
from experiments.runs import columns, reader
from experiments.runs import folder as output
from experiments.runs.divergence import has_diverged
from experiments.runs.versions import versions
from experiments.training import cohorts as cohorts_lib
from experiments.training import eval_subset, export, remote_data
from experiments.training import tensorboard as board_lib
from tasks.data.folders import DataError
from tasks.task import Task
from tff_momentum import algorithms, wire_bytes
from tff_momentum.algorithm import Algorithm
from tff_momentum.client import LocalWork
from tff_momentum.processes.process import build_process
from tff_momentum.registry import ALGORITHMS, REQUIRED
from tff_momentum.runtime import set_execution_context
from tff_momentum.simulation import loop
from tff_momentum.simulation.checkpoints import Checkpoints
from tff_momentum.simulation.client_store import ClientStore, LmdbStore, MemoryStore
from tff_momentum.transforms.asynchronous import asynchronous
from tff_momentum.transforms.compression import compressed, quantiser

# What is in a run's folder, as it is told at the end.
PARTS = ("config.json", "metrics.csv", "summary.json", "tensorboard/", "checkpoints/", "model_best/",
         "model_last/")  # fmt: skip


def run(flags: Any) -> int:
  """Runs, or resumes, the experiment that the flags describe.

  Returns the exit code; raises `UserError` for what is wrong with the flags.
  """
  given = flag_hyperparameters(flags)
  options = task_options(flags)
  with as_user_errors(ValueError, OSError):
    set_execution_context(
      flags.runtime,
      devices=flags.devices,
      max_clients_in_flight=flags.max_clients_in_flight,
      address=flags.ray_address,
    )
    task = tasks.loader(flags.task)(seed=flags.seed, **options)
    if flags.runtime == "ray":
      task = remote_data.by_reference(task, flags.task, flags.seed, options)
    config = resolve(flags, task, given)
    task = eval_subset.on_part(task, config["eval_examples"])
    algorithm = build_algorithm(
      flags.algo, given, task, config["clients_per_round"], config["max_staleness"]
    )
    if flags.compression:
      algorithm = compressed(algorithm, flags.compression)
    if config["async"] and not algorithm.max_staleness:
      algorithm = asynchronous(algorithm, config["max_staleness"])
    work = LocalWork(
      epochs=config["client_epochs_per_round"] or 1,
      steps=config["client_steps_per_round"],
      weight_decay=flags.weight_decay,
      uneven=config["client_steps_law"] is not None,
    )
    process = build_process(algorithm, task.model, work=work, non_finite=flags.non_finite)
    cohorts = cohorts_lib.build(config, task)
    measure = diagnosing.build(config, process, task)
    folder = output.RunFolder.open(flags.root_output_dir, config, restart=flags.restart)
  with contextlib.closing(folder), as_user_errors(OSError, DataError):
    return train(flags, config, task, process, cohorts, measure, folder)


def train(
  flags: Any, config: Any, task: Task, process: Any, cohorts: Any, measure: Any, folder: Any
) -> int:
  """Runs the rounds that are left, with checkpoints; ends the present round when interrupted."""
  store = client_store(flags, config, process, folder)
  checkpoints = Checkpoints(
    folder.path / "checkpoints", process, store, keep=flags.keep_checkpoints
  )
  state = checkpoints.resume()
  first, total = int(state.round), config["total_rounds"]
  best = export.Best(folder.path / "checkpoints" / "best.npz")
  if first >= total:
    if not (folder.path / "summary.json").exists():  # killed between its last round and its end
      finish(flags, config, process, folder, process.weights(state), best)
    print(f"{folder.path} is complete: {first} rounds. Ask for more with --total_rounds.")
    return 0
  if flags.stop_on_divergence and (reader.read_summary(folder.path) or {}).get("diverged"):
    print(diverged_words(folder.path, first))
    return 0
  names = list(process.next.type_signature.result.metrics.member.train._asdict())
  with as_user_errors(ValueError, OSError):
    diagnostics = measure.columns if measure else []
    measured = list(cohorts(0).measurements)
    folder.start_metrics(columns.header(names, measured, diagnostics), first)
  board = None if flags.lean else board_lib.TensorBoard(folder.path / "tensorboard", config)
  profile = board_lib.Profile(folder.path / "tensorboard", flags.profile)
  rounds = loop.rounds(
    process,
    task,
    total_rounds=total,
    participation=cohorts,
    client_batch_size=config["client_batch_size"],
    seed=flags.seed,
    rounds_per_eval=flags.rounds_per_eval,
    store=store,
    state=state,
    measure=measure,
  )
  del state  # else the first one is kept to the end
  with Interruption() as interruption, progress_bar(config, first, quiet=flags.quiet) as bar:
    for finished in rounds:
      folder.write_row(finished.row)
      if board is not None:
        board.write(finished.row)
        if finished.number == 0:
          board.draw_labels(task)
      profile.round_ended()
      best.see(finished.row, process.weights(finished.state))
      bar.set_postfix_str(_headline(finished.row), refresh=False)
      bar.update()
      done = finished.number + 1
      diverged = flags.stop_on_divergence and has_diverged(finished.row)
      ends = done == total or diverged or interruption.asked
      if ends or done % flags.rounds_per_checkpoint == 0:
        folder.sync_metrics()
        best.write()
        checkpoints.save(finished.state)
      if ends:
        break
  profile.close()
  store.close()
  if done < total and not diverged:
    print(f"Stopped after round {done} of {total}; run the same command again to go on.")
    return 130
  finish(flags, config, process, folder, process.weights(finished.state), best)
  if diverged:
    print(diverged_words(folder.path, done))
  return 0


def finish(
  flags: Any, config: Any, process: Any, folder: Any, weights: Any, best: export.Best
) -> None:
  """Exports the models of a run that is through, then sums it up: a summary means that all is there."""
  if not flags.lean:
    export.export_both(folder.path, process.model, weights, best.weights(), config)
  print(closing_words(folder.path, folder.write_summary()))


def client_store(flags: Any, config: Any, process: Any, folder: Any) -> ClientStore:
  """Where the clients' states are kept: on disk where all of them together would be large."""
  init = loop.client_initializer(process, flags.seed)
  state_bytes = wire_bytes.dense_bytes(tf.nest.map_structure(tf.type_spec_from_value, init("")))
  everyone = config["num_clients"] * state_bytes
  where = flags.client_states
  if where == "auto":
    where = "disk" if everyone > 2**30 else "memory"
  if where == "memory":
    return MemoryStore(init)
  return LmdbStore(folder.path / "client_states", init)


class Interruption:
  """Ctrl-C, or a batch system's SIGTERM, asks the run to end after the present round; twice ends it now."""

  asked = False

  def __enter__(self) -> "Interruption":
    self._before = {s: signal.signal(s, self._ask) for s in (signal.SIGINT, signal.SIGTERM)}
    return self

  def __exit__(self, *error: object) -> None:
    for number, handler in self._before.items():
      signal.signal(number, handler)

  def _ask(self, number: int, frame: Any) -> None:
    if self.asked:
      raise KeyboardInterrupt
    self.asked = True
    print("\nEnding after this round; once more to stop at once.", file=sys.stderr)


def closing_words(folder: pathlib.Path, summary: Mapping[str, Any]) -> str:
  """What a finished run prints: the result, and where everything is."""
  shown = ", ".join(
    f"{name.removeprefix('final eval/')} {value:.4g}"
    for name, value in summary.items()
    if name.startswith("final eval/")
  )
  return (
    f"Final evaluation after {summary['rounds']} rounds: {shown}.\n"
    f"Everything is in {folder}: {', '.join(name for name in PARTS if (folder / name).exists())}."
  )


def diverged_words(folder: pathlib.Path, rounds: int) -> str:
  """What is printed of a run that was ended early."""
  return (
    f"{folder} diverged in round {rounds}: its loss, or every client's update, was not finite any more. "
    "Lower the learning rates; --nostop_on_divergence would let it go on."
  )


def flag_hyperparameters(flags: Any) -> dict[str, Any]:
  """The hyperparameters that the flags give, checked before any data is loaded."""
  given = {name: flags[name].value for name in ALGORITHM_FLAGS if flags[name].value is not None}
  for name, text in assignments("set").items():
    if name in given:
      raise UserError(f"{name} is given twice, as a flag and with --set; give it once.")
    given[name] = text
  with as_user_errors(ValueError, OSError):
    if flags.compression:
      quantiser(flags.compression)
  return hyperparameters(flags.algo, given)


def hyperparameters(algo: str, texts: Mapping[str, str]) -> dict[str, Any]:
  """Reads hyperparameters, checks their names against the builder and their values by building.

  Stand-ins take the place of what only the task can tell.
  """
  builder, defaults = algorithms.builder(algo), ALGORITHMS[algo].hyperparameters
  own = [name for name in defaults if name not in STAND_INS]
  given = {name: literal(text) for name, text in texts.items()}
  for name, value in given.items():
    if name not in own:
      raise unknown_name(f"the algorithm {algo}", name, own)
    if isinstance(defaults[name], bool) and not isinstance(value, bool):
      raise UserError(f"{name} must be true or false; found {value!r}.")
  told = _wanted(algo, {"client_learning_rate": 0.1, **STAND_INS})
  for name in own:
    if defaults[name] is REQUIRED and name not in {**told, **given}:
      raise UserError(f"the algorithm {algo} needs --set {name}=..., which has no default.")
  try:
    builder(**{**told, **given})
  except ValueError as error:
    raise UserError(str(error)) from error
  return given


def build_algorithm(
  algo: str,
  given: Mapping[str, Any],
  task: Task,
  clients_per_round: int,
  max_staleness: int | None = None,
) -> Algorithm:
  """Builds the algorithm for a task."""
  told = {
    "client_learning_rate": task.defaults.client_learning_rate,
    "num_clients": len(task.clients),
    "total_examples": task.total_examples,
    "participation": clients_per_round / len(task.clients),
    **({} if max_staleness is None else {"max_staleness": max_staleness}),
  }
  return algorithms.builder(algo)(**{**_wanted(algo, told), **given})


def task_options(flags: Any) -> dict[str, Any]:
  """The options that the flags give the task, checked against the registry of tasks."""
  known = tasks.info(flags.task).options
  given = {name: flags[name].value for name in TASK_FLAGS if flags[name].value is not None}
  given.update((name, literal(text)) for name, text in assignments("task_set").items())
  for name in given:
    if name not in known:
      raise unknown_name(f"the task {flags.task}", name, known)
  return given


def resolve(flags: Any, task: Task, given: Mapping[str, Any]) -> dict[str, Any]:
  """Every value of the run as it will be used, for `config.json`."""
  defaults = task.defaults

  def chosen(name: str) -> Any:
    if flags[name].value is not None:
      return flags[name].value
    default = getattr(defaults, name)
    return scale.shrink(name, default, flags.scale) if name in scale.AT_LEAST else default

  return {
    "task": flags.task,
    "algo": flags.algo,
    "experiment_name": flags.experiment_name or f"{flags.task}_{flags.algo}_{flags.seed}",
    "preset": flags.preset,
    "scale": flags.scale,
    "seed": flags.seed,
    "total_rounds": chosen("total_rounds"),
    "clients_per_round": min(chosen("clients_per_round"), len(task.clients))
    if flags.clients_per_round is None
    else flags.clients_per_round,
    "client_epochs_per_round": None
    if flags.client_steps_per_round or flags.client_steps_law
    else chosen("client_epochs_per_round"),
    "client_steps_per_round": flags.client_steps_per_round,
    "client_batch_size": chosen("client_batch_size"),
    "weight_decay": flags.weight_decay,
    "compression": flags.compression,
    "non_finite": flags.non_finite,
    "num_clients": len(task.clients),
    **uneven_clients.resolve(flags),
    **diagnosing.resolve(flags),
    "rounds_per_eval": flags.rounds_per_eval,
    "eval_examples": eval_subset.resolve(flags, task),
    "runtime": flags.runtime,
    "devices": flags.devices,
    "max_clients_in_flight": flags.max_clients_in_flight,
    "data": task.data,
    "hyperparameters": {
      **_wanted(flags.algo, {"client_learning_rate": defaults.client_learning_rate}),
      **given,
    },
    "task_details": dict(task.details),
    "versions": versions(),
  }


def literal(text: Any) -> Any:
  """The number, list or truth value that a text spells, or the text itself."""
  if not isinstance(text, str):
    return text
  if text.lower() in ("true", "false"):
    return text.lower() == "true"
  try:
    return ast.literal_eval(text)
  except (SyntaxError, ValueError, TypeError, MemoryError, RecursionError):
    return text


def progress_bar(config: Mapping[str, Any], first: int, *, quiet: bool) -> tqdm.tqdm:
  """A bar with the rounds per second."""
  return tqdm.tqdm(
    total=config["total_rounds"],
    initial=first,
    desc=f"{config['task']} {config['algo']}",
    unit="round",
    disable=quiet,
  )


def _wanted(algo: str, told: Mapping[str, Any]) -> dict[str, Any]:
  known = ALGORITHMS[algo].hyperparameters
  return {name: value for name, value in told.items() if name in known}


def _headline(row: Mapping[str, float]) -> str:
  shown = [f"loss {row['train/loss']:.4g}"] if "train/loss" in row else ["skipped"]
  shown += [
    f"{name.removeprefix('eval/')} {value:.4g}"
    for name, value in row.items()
    if name.startswith("eval/") and name != "eval/loss"
  ]
  return ", ".join(shown)
