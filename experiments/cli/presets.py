"""The presets: `experiments/presets/<paper>/<table or figure>/<task>_<algo>.flags`.

A preset is an absl flagfile, so `--flagfile` reads it too. Sweeps also read two kinds of comments:

    # grid: client_learning_rate=0.1,0.05,0.01     the values that the paper searched; `feddyn:alpha=...` is
                                                   the algorithm's alpha, `task:alpha=...` the task's
    # seeds: 1,2,3,4,5                             the seeds of the runs that the paper averages
"""

import pathlib
from collections.abc import Iterable, Sequence
from typing import NamedTuple

from experiments.cli import scale
from experiments.cli.errors import UserError, suggestions

FOLDER = pathlib.Path(__file__).resolve().parent.parent / "presets"
# Flags that can be given once for each name, as in `--set=beta=0.9`.
BY_NAME = ("set", "task_set")
# A run takes one of these; one on the command line replaces the preset's.
EXCLUSIVE = ("client_epochs_per_round", "client_steps_per_round", "client_steps_law")


class Preset(NamedTuple):
  """A preset's flags as `--name=value`, its grids as `name=value,value`, and its seeds."""

  name: str
  flags: list[str]
  grids: list[str]
  seeds: list[int]


def names(prefix: str = "") -> list[str]:
  """The presets with this name or in this folder; all presets for the empty prefix."""
  found = sorted(
    path.relative_to(FOLDER).with_suffix("").as_posix() for path in FOLDER.rglob("*.flags")
  )
  prefix = prefix.strip("/").removesuffix(".flags")
  chosen = [name for name in found if not prefix or name == prefix or name.startswith(prefix + "/")]
  if not chosen:
    folders = {parent for name in found for parent in _parents(name)}
    hint = suggestions(prefix, [*found, *folders])
    raise UserError(
      f"there is no preset {prefix!r}{hint}; run.py --list_presets shows all {len(found)}."
    )
  return chosen


def read(name: str) -> list[str]:
  """A preset's flags, as `--name=value`."""
  return load(name).flags


def load(name: str) -> Preset:
  """Reads one preset; raises `UserError` if it does not exist or has an invalid line."""
  chosen = names(name)
  name = name.strip("/").removesuffix(".flags")
  if chosen != [name]:
    raise UserError(
      f"--preset must name one preset, such as {chosen[0]}; {name!r} is a folder of {len(chosen)}, which "
      "sweep.py runs."
    )
  preset = Preset(name, [], [], [])
  text = (FOLDER / f"{name}.flags").read_text(encoding="utf-8")
  for number, line in enumerate(text.splitlines(), start=1):
    _read_line(preset, line.strip(), f"{name}.flags, line {number}")
  return preset


def by_name(flags: Iterable[str]) -> dict[str, str]:
  """The values of `--name=value` flags by name; the last one wins."""
  return dict(flag.removeprefix("--").partition("=")[::2] for flag in flags)


def expand(argv: Sequence[str]) -> list[str]:
  """Puts the preset's flags, reduced by `--scale`, before those of the command line, which override them."""
  typed = normalise(argv[1:])
  given = by_name(typed)
  if "preset" not in given:
    return list(argv)
  return [argv[0], *merge(scaled(read(given["preset"]), given.get("scale")), typed)]


def scaled(flags: Iterable[str], factor: str | None) -> list[str]:
  """Flags with their rounds, cohort and test examples reduced; the factor is the text of `--scale`."""
  if factor is None:
    return list(flags)
  try:
    number = float(factor)
  except ValueError:
    raise UserError(f"--scale takes a number, as in --scale=0.05; found {factor!r}.") from None
  return scale.shrink_flags(flags, scale.check(number))


def merge(flags: Iterable[str], overriding: Sequence[str]) -> list[str]:
  """Both lists of `--name=value` flags, without those of the first that the second overrides."""
  replaced = {key for flag in overriding for key in _keys(flag)}
  return [flag for flag in flags if _keys(flag)[0] not in replaced] + list(overriding)


def normalise(words: Iterable[str]) -> list[str]:
  """Rewrites flags such as `-name value` as `--name=value`; other words stay."""
  found: list[str] = []
  waiting = False
  for word in words:
    if waiting:
      found[-1] += f"={word}"
      waiting = False
    elif word.startswith("-") and word.strip("-"):
      found.append("--" + word.lstrip("-"))
      waiting = "=" not in word and word.lstrip("-") in (*BY_NAME, "preset", "scale", "from_config")
    else:
      found.append(word)
  return found


def _keys(flag: str) -> tuple[str, ...]:
  """What a flag sets, its name or `set.beta`; then the flags that it excludes."""
  name, _, value = flag.removeprefix("--").partition("=")
  if name in BY_NAME:
    return (f"{name}.{value.partition('=')[0]}",)
  others = (other for other in EXCLUSIVE if other != name) if name in EXCLUSIVE else ()
  return name, *others


def _read_line(preset: Preset, line: str, place: str) -> None:
  if line.startswith("# grid:"):
    preset.grids.append(line.removeprefix("# grid:").strip())
  elif line.startswith("# seeds:"):
    preset.seeds.extend(int(seed) for seed in line.removeprefix("# seeds:").split(","))
  elif line.startswith("--") and "=" in line:
    preset.flags.append(line)
  elif line and not line.startswith("#"):
    raise UserError(f"{place}: expected --name=value or a comment; found {line!r}.")


def _parents(name: str) -> list[str]:
  parts = name.split("/")
  return ["/".join(parts[:n]) for n in range(1, len(parts))]
