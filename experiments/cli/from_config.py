"""`--from_config=FILE`: the flags that make a run again what a `config.json` says it was."""

import json
import pathlib
from collections.abc import Sequence
from typing import Any

from absl import flags

import tasks
from experiments.cli import presets
from experiments.cli.errors import UserError
from experiments.cli.flags import ALGORITHM_FLAGS, TASK_FLAGS

# What a run says of itself that is no flag of the next: a name of its own, and what lies in the details.
NOT_TAKEN = ("experiment_name", "preset", "num_clients", "data")


def expand(argv: Sequence[str]) -> list[str]:
  """A command line with the file's flags before what is typed, which wins."""
  typed = presets.normalise(argv[1:])
  given = presets.by_name(typed)
  if "from_config" not in given:
    return list(argv)
  if "preset" in given:
    raise UserError("--from_config and --preset exclude each other; give one of them.")
  rest = [flag for flag in typed if not flag.startswith("--from_config=")]
  return [argv[0], *presets.merge(read(pathlib.Path(given["from_config"])), rest)]


def read(path: pathlib.Path) -> list[str]:
  """The flags of a file, `config.json` or the folder it is in, as `--name=value`."""
  path = path / "config.json" if path.is_dir() else path
  try:
    config = json.loads(path.read_text(encoding="utf-8"))
    task, details, tuned = config["task"], config["task_details"], config["hyperparameters"]
    name = config["experiment_name"]
  except OSError as error:
    raise UserError(f"--from_config={path} cannot be read: {error.strerror}.") from None
  except (ValueError, KeyError, TypeError):
    raise UserError(f"--from_config must name the config.json of a run; {path} is none.") from None
  found = [f"--experiment_name={name}_again"]
  found += [
    f"--{key}={_text(value)}"
    for key, value in config.items()
    if key in flags.FLAGS and key not in NOT_TAKEN and value is not None
  ]
  options = set(tasks.info(task).options) & set(details)
  found += _options(details, options, TASK_FLAGS, "task_set")
  return found + _options(tuned, set(tuned), ALGORITHM_FLAGS, "set")


def _options(values: dict[str, Any], names: set[str], own: Sequence[str], flag: str) -> list[str]:
  """Values by name: as a flag of its own where there is one, or else as `--set=name=value`."""
  return [
    f"--{name}={_text(values[name])}" if name in own else f"--{flag}={name}={_text(values[name])}"
    for name in sorted(names)
    if values[name] is not None
  ]


def _text(value: Any) -> str:
  return ",".join(map(str, value)) if isinstance(value, list) else str(value)
