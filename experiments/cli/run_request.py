"""What a command line asks for: every flag of a run, typed and checked, before anything heavy is imported.

Values that only the task can supply, such as its default number of rounds, are None here; `run_config`
resolves them once the task is loaded.
"""

import dataclasses
import re
from collections.abc import Mapping
from typing import Literal

from absl import flags

import tasks
from experiments.cli import (
  assignments,
  client_eval,
  diagnostics,
  names,
  references,
  scale,
  tracking,
  uneven_clients,
)
from experiments.cli.client_eval import ClientEvalOptions
from experiments.cli.diagnostics import DiagnosticsOptions
from experiments.cli.errors import UserError, as_user_errors
from experiments.cli.flags import ALGORITHM_FLAGS, TASK_FLAGS
from experiments.cli.uneven_clients import UnevenClients
from tasks.data import folders
from tff_momentum import aggregator_options, user_code
from tff_momentum.runtime.ray.address import check_listening


@dataclasses.dataclass(frozen=True)
class RuntimeOptions:
  """Where TFF computations run, as `tff_momentum.runtime.set_execution_context` takes it."""

  name: str = "inprocess"
  devices: str = "auto"
  max_clients_in_flight: int | None = None
  ray_address: str | None = None
  tf32: bool = False
  deterministic: bool = False
  gpu_convolutions: Literal["cudnn", "xla"] = "cudnn"
  gpu_recurrent: Literal["cudnn", "xla"] = "cudnn"


@dataclasses.dataclass(frozen=True)
class OutputOptions:
  """What a run writes and shows. None of it affects the results, and none of it is in config.json.

  Attributes:
    root: the folder that contains all run folders.
    restart: take a new folder if the name is taken.
    rounds_per_checkpoint: number of rounds between checkpoints.
    keep_checkpoints: number of checkpoints to keep.
    client_states: where to keep the clients' states: "memory", "disk" or "auto".
    stop_on_divergence: whether to stop when the loss is no longer finite.
    profile: number of rounds to trace, None for none.
    track: the trackers that get each round's row, by name.
    lean: write no TensorBoard files and export no models.
    quiet: show no progress bar.
  """

  root: str = "runs"
  restart: bool = False
  rounds_per_checkpoint: int = 50
  keep_checkpoints: int = 2
  client_states: str = "auto"
  stop_on_divergence: bool = True
  profile: int | None = None
  track: tuple[str, ...] = ()
  lean: bool = False
  quiet: bool = False


@dataclasses.dataclass(frozen=True, kw_only=True)
class RunRequest:
  """The flags of a run; None means the task's default.

  Attributes:
    hyperparameters: the hyperparameters that were given, by name.
    task_options: the options of the task that were given, by name.
  The others are those of `run_config.RunConfig`.
  """

  task: str
  algo: str
  experiment_name: str | None
  preset: str | None
  scale: float | None
  seed: int
  total_rounds: int | None
  clients_per_round: int | None
  client_epochs_per_round: int | None
  client_steps_per_round: int | None
  client_batch_size: int | None
  weight_decay: float
  client_clip_norm: float | None
  compression: str | None
  transform: str | None
  aggregator: str | None
  non_finite: str
  uneven: UnevenClients
  diagnostics: DiagnosticsOptions
  rounds_per_eval: int
  eval_examples: int | None
  client_eval: ClientEvalOptions
  tune_on: str
  runtime: RuntimeOptions
  output: OutputOptions
  hyperparameters: Mapping[str, object]
  task_options: Mapping[str, object]


def from_flags(given: flags.FlagValues) -> RunRequest:
  """Reads the parsed flags; raises `UserError` for unknown names and values that do not fit together."""
  names.check_task(given.task)
  names.check_algo(given.algo)
  references.check(given)
  sets = assignments.read_assignments("set", given["set"].value)
  task_sets = assignments.read_assignments("task_set", given.task_set)
  if given.client_steps_per_round and given.client_epochs_per_round:
    raise UserError("--client_steps_per_round and --client_epochs_per_round exclude each other; "
                    "give one of them.")  # fmt: skip
  if given.client_clip_norm == 0:
    raise UserError("--client_clip_norm must be above 0; found 0. Leave it out for no clipping.")
  if given.scale is not None:
    scale.check(given.scale)
  _check_runtime(given)
  uneven = uneven_clients.from_flags(given)
  measured = diagnostics.from_flags(given)
  rates = _given(given, ALGORITHM_FLAGS)
  for name in sets:
    if name in rates:
      raise UserError(f"{name} is given twice, as a flag and with --set; give it once.")
  hyperparameters = assignments.hyperparameters(given.algo, {**rates, **sets})
  _check_aggregator(given, bool(uneven.asynchronous), hyperparameters)
  return RunRequest(
    task=given.task,
    algo=given.algo,
    experiment_name=given.experiment_name,
    preset=given.preset,
    scale=given.scale,
    seed=given.seed,
    total_rounds=given.total_rounds,
    clients_per_round=given.clients_per_round,
    client_epochs_per_round=given.client_epochs_per_round,
    client_steps_per_round=given.client_steps_per_round,
    client_batch_size=given.client_batch_size,
    weight_decay=given.weight_decay,
    client_clip_norm=given.client_clip_norm,
    compression=given.compression,
    transform=given.transform,
    aggregator=given.aggregator,
    non_finite=given.non_finite,
    uneven=uneven,
    diagnostics=measured,
    rounds_per_eval=given.rounds_per_eval,
    eval_examples=given.eval_examples,
    client_eval=client_eval.from_flags(given),
    tune_on=given.tune_on,
    runtime=RuntimeOptions(
      name=given.runtime,
      devices=given.devices,
      max_clients_in_flight=given.max_clients_in_flight,
      ray_address=given.ray_address,
      tf32=given.tf32 == "on",
      deterministic=given.deterministic,
      gpu_convolutions=given.gpu_convolutions,
      gpu_recurrent=given.gpu_recurrent,
    ),
    output=OutputOptions(
      root=given.root_output_dir,
      restart=given.restart,
      rounds_per_checkpoint=given.rounds_per_checkpoint,
      keep_checkpoints=given.keep_checkpoints,
      client_states=given.client_states,
      stop_on_divergence=given.stop_on_divergence,
      profile=given.profile,
      track=tracking.check(given.track),
      lean=given.lean,
      quiet=given.quiet,
    ),
    hyperparameters=hyperparameters,
    task_options=_task_options(given, task_sets),
  )


def _task_options(given: flags.FlagValues, texts: Mapping[str, str]) -> dict[str, object]:
  found = assignments.task_options(given.task, _given(given, TASK_FLAGS), texts)
  ours = not user_code.is_user_code(given.task)  # a user's task may keep its data in another way
  reads_folder = "data_dir" in tasks.info(given.task).options and found.get("data") != "synthetic"
  if ours and reads_folder:
    with as_user_errors(folders.DataError):
      folders.check_given(given.data_dir)
  return found


def _check_aggregator(
  given: flags.FlagValues, asynchronous: bool, hyperparameters: Mapping[str, object]
) -> None:
  """Raises `UserError` for an aggregator that does not exist or does not fit the other flags."""
  if given.aggregator is None:
    return
  with as_user_errors(ValueError):
    found = aggregator_options.parse(given.aggregator)
  if isinstance(found, aggregator_options.PrivateMean):
    if asynchronous:
      raise UserError("--aggregator=dp(...) is for synchronous rounds, in which a client takes part at most "
                      "once; use --noasync.")  # fmt: skip
    weighting = {**assignments.settable(given.algo), **hyperparameters}.get("client_weighting")
    if weighting == "num_examples":
      raise UserError(f"--aggregator=dp(...) gives every client the same weight; {given.algo} has "
                      "client_weighting=num_examples: use --client_weighting=uniform.")  # fmt: skip


def _check_runtime(given: flags.FlagValues) -> None:
  """Raises `UserError` for flags of another runtime and for devices that cannot exist."""
  if given.ray_address is not None and given.runtime != "ray":
    raise UserError(f"--ray_address is for --runtime=ray; found --runtime={given.runtime}.")
  if given.ray_address is not None:
    with as_user_errors(ConnectionError):
      check_listening(given.ray_address)
  if not re.fullmatch(r"auto|(gpu|cpu)(:[1-9]\d*)?", given.devices):
    raise UserError(
      f"--devices must be auto, cpu, gpu, cpu:N or gpu:N with N at least 1; found {given.devices!r}."
    )
  if given.runtime == "tff" and (given.deterministic or given.tf32 == "on"):
    raise UserError("--deterministic and --tf32 are for GPUs, which --runtime=tff does not use; "
                    "remove them.")  # fmt: skip


def _given(given: flags.FlagValues, names: tuple[str, ...]) -> dict[str, object]:
  return {name: given[name].value for name in names if given[name].value is not None}
