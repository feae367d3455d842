"""Search spaces, and the runs that they expand to: one run per grid point and seed."""

import dataclasses
import hashlib
import itertools
import re
from collections.abc import Mapping, Sequence

import tasks
from experiments.cli import presets
from experiments.cli.assignments import settable
from experiments.cli.errors import UserError, unknown_name
from experiments.sweeps.grids import Grid, flag_of
from tff_momentum.registry import REQUIRED

LONGEST_NAME = 120


@dataclasses.dataclass(frozen=True)
class SearchSpace:
  """An algorithm on a task, or a preset, and the grids and seeds to run it with.

  Attributes:
    label: the prefix of its runs' names; runs with the same label compete in successive halving.
    task: the task.
    algo: the algorithm.
    flags: the flags of every run, as `--name=value`.
    grids: the values to vary.
    seeds: the seeds to run each configuration with.
  """

  label: str
  task: str
  algo: str
  flags: tuple[str, ...]
  grids: tuple[Grid, ...]
  seeds: tuple[int, ...]


@dataclasses.dataclass(frozen=True)
class SweepRun:
  """One run of a sweep: a grid point with a seed.

  Attributes:
    name: the name of its folder.
    label: the label of its search space.
    task: the task.
    algo: the algorithm.
    values: the grid point, as value by name.
    seed: the seed.
    flags: the flags for `run.py`, except for the output folder and the rounds of the present rung.
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
    """The label and the grid point, which runs that differ only in the seed share."""
    return self.label, tuple(self.values.items())


def runs_of(spaces: Sequence[SearchSpace]) -> list[SweepRun]:
  """All runs, ordered by seed, so that every configuration has a result early in the sweep.

  Raises:
    UserError: if a grid is invalid, or two runs are the same.
  """
  runs = [run for space in spaces for run in _runs_in(space)]
  runs.sort(key=lambda run: run.seed)  # stable: keeps the order of the grids within a seed
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
      raise UserError(f"{space.label} has two grids for one name; give all values in one grid.")
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
  """Raises `UserError` for unknown and for missing hyperparameters and options."""
  plain = {flag.removeprefix("--").partition("=")[0] for flag in flags}
  for which, what, known in (
    ("set", f"the algorithm {space.algo}", settable(space.algo)),
    ("task_set", f"the task {space.task}", tasks.info(space.task).options),
  ):
    given = [flag.split("=")[1] for flag in flags if flag.startswith(f"--{which}=")]
    for name in given:
      if name not in known:
        raise unknown_name(what, name, known)
    for name, default in known.items():
      # Every task has a default client learning rate.
      if default is REQUIRED and name not in (*given, *plain, "client_learning_rate"):
        raise UserError(f"{what} needs {name}, which has no default; give --{which} {name}=...")


def _folder_name(label: str, values: Mapping[str, str], seed: int) -> str:
  """A readable, unique name that is valid in any file system."""
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
