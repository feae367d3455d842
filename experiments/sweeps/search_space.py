"""Cells: one run each, a point of the grids with a seed, in a folder whose name says what it is."""

import dataclasses
import hashlib
import itertools
import re
from collections.abc import Mapping, Sequence

from experiments.cli import presets
from experiments.cli.errors import UserError, unknown_name
from experiments.sweeps import signatures
from experiments.sweeps.grids import Grid, flag_of

LONGEST_NAME = 120


@dataclasses.dataclass(frozen=True)
class SearchSpace:
  """What grids are laid over: an algorithm on a task, or a preset.

  Attributes:
    label: begins the names of its runs; runs of one label compete in halving.
    task: the task.
    algo: the algorithm.
    flags: of every run, as `--name=value`.
    grids: what to vary.
    seeds: of the runs.
  """

  label: str
  task: str
  algo: str
  flags: tuple[str, ...]
  grids: tuple[Grid, ...]
  seeds: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class SweepRun:
  """One run.

  Attributes:
    name: of its folder.
    label: of its space.
    task: the task.
    algo: the algorithm.
    values: where it lies in the grids.
    seed: its seed.
    flags: all that `run.py` is told, except where to write and how many rounds to go this time.
  """

  name: str
  label: str
  task: str
  algo: str
  values: Mapping[str, str]
  seed: int
  flags: tuple[str, ...]

  @property
  def configuration(self) -> tuple[str, tuple[tuple[str, str], ...]]:
    """What its seeds have in common."""
    return self.label, tuple(self.values.items())


def runs_of(spaces: Sequence[SearchSpace]) -> list[SweepRun]:
  """All runs, first seeds first, so that an early look sees every configuration."""
  runs = [run for space in spaces for run in _runs_in(space)]
  runs.sort(key=lambda run: run.seed)  # stable: within a seed in the order of the grids
  by_name: dict[str, SweepRun] = {}
  for run in runs:
    if by_name.setdefault(run.name, run) is not run:
      raise UserError(f"two runs of the sweep are the same, {run.name}; give each value once.")
  return runs


def _runs_in(space: SearchSpace) -> list[SweepRun]:
  axes = []
  for grid in space.grids:
    flag = flag_of(grid, space.task, space.algo)
    if flag is not None:
      axes.append([(grid.name, value, flag + value) for value in grid.values])
  runs = []
  for point in itertools.product(*axes):
    values = {name: value for name, value, _ in point}
    if len(values) < len(point):
      raise UserError(f"a grid is given twice for {space.label}; give all its values at once.")
    flags = presets.merge(space.flags, [flag for _, _, flag in point])
    _check_complete(space, flags)
    for seed in space.seeds:
      runs.append(
        SweepRun(
          name=_folder_name(space.label, values, seed),
          label=space.label,
          task=space.task,
          algo=space.algo,
          values=values,
          seed=seed,
          flags=(*flags, f"--seed={seed}"),
        )
      )
  return runs


def _check_complete(space: SearchSpace, flags: Sequence[str]) -> None:
  """Raises `UserError` for unknown hyperparameters and options, and for needed ones that are missing."""
  plain = {flag.removeprefix("--").partition("=")[0] for flag in flags}
  for which, what, known in (
    ("set", f"the algorithm {space.algo}", signatures.of_algorithm(space.algo)),
    ("task_set", f"the task {space.task}", signatures.of_task(space.task)),
  ):
    given = [flag.split("=")[1] for flag in flags if flag.startswith(f"--{which}=")]
    for name in given:
      if name not in known:
        raise unknown_name(what, name, known)
    for name, needed in known.items():
      # Every task has a learning rate for its clients.
      if needed and name not in (*given, *plain, "client_learning_rate"):
        raise UserError(f"{what} needs {name}, which has no default; give --{which} {name}=...")


def _folder_name(label: str, values: Mapping[str, str], seed: int) -> str:
  """Readable, safe in any file system, and another for other values."""
  written = "-".join(
    [_clean(label), *(f"{name}={_clean(value)}" for name, value in values.items())]
  )
  exact = "-".join([label, *(f"{name}={value}" for name, value in values.items())])
  if written != exact or len(written) > LONGEST_NAME:
    digest = hashlib.sha256(exact.encode()).hexdigest()[:8]
    written = f"{written[: LONGEST_NAME - 9]}-{digest}"
  return f"{written}-seed={seed}"


def _clean(text: str) -> str:
  return re.sub(r"[^A-Za-z0-9.+-]+", "_", text).strip("_")
