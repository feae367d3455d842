"""`--from_config=FILE`: the flags that repeat the run of a config.json."""

import pathlib
from collections.abc import Iterable, Mapping, Sequence

from absl import flags

import tasks
from experiments.cli import presets
from experiments.cli.errors import UserError
from experiments.cli.flags import ALGORITHM_FLAGS, TASK_FLAGS
from experiments.runs import reader

# Keys of config.json that are not copied: the new run has its own name, and the task's details hold the rest.
NOT_COPIED = ("experiment_name", "preset", "num_clients", "data")


def expand(argv: Sequence[str]) -> list[str]:
  """Puts the file's flags before those of the command line, which override them."""
  typed = presets.normalise(argv[1:])
  given = presets.by_name(typed)
  if "from_config" not in given:
    return list(argv)
  if "preset" in given:
    raise UserError("--from_config and --preset exclude each other; give one of them.")
  rest = [flag for flag in typed if not flag.startswith("--from_config=")]
  return [argv[0], *presets.merge(read(pathlib.Path(given["from_config"])), rest)]


def read(path: pathlib.Path) -> list[str]:
  """The flags, as `--name=value`, of a config.json or of the run folder that contains it."""
  path = path / "config.json" if path.is_dir() else path
  try:
    config = reader.read_config(path)
  except reader.UnusableRun as reason:
    raise UserError(f"--from_config must name the config.json of a run; {path}: {reason}") from None
  missing = [
    name for name in ("experiment_name", "task_details", "hyperparameters") if name not in config
  ]
  if missing:
    raise UserError(
      f"--from_config must name the config.json of a run; {path} has no {missing[0]}."
    )
  found = [f"--experiment_name={config['experiment_name']}_again"]
  found += [
    f"--{key}={_text(value)}"
    for key, value in config.items()
    if key in flags.FLAGS and key not in NOT_COPIED and value is not None
  ]
  details = config["task_details"]
  options = set(_known_options(config["task"]) or details) & set(details)
  given = {name for name in options if details[name] is not None}
  found += _options(details, given, TASK_FLAGS, "task_set")
  # All hyperparameters, also those that are None: a default may have changed since.
  tuned = config["hyperparameters"]
  return found + _options(tuned, tuned, ALGORITHM_FLAGS, "set")


def _known_options(task: str) -> Iterable[str]:
  try:
    return tasks.info(task).options
  except ValueError:  # a task that no longer exists; the name of the task is checked later
    return ()


def _options(
  values: Mapping[str, object], names: Iterable[str], own: Sequence[str], flag: str
) -> list[str]:
  """Values by name: as a flag where there is one of this name, or else as `--set=name=value`."""
  return [
    f"--{name}={_text(values[name])}" if name in own else f"--{flag}={name}={values[name]}"
    for name in sorted(names)
  ]


def _text(value: object) -> str:
  return ",".join(map(str, value)) if isinstance(value, list) else str(value)
