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
class Entry:
  """What grids are laid over: an algorithm on a task, or a preset.

  Attributes:
    label: begins the names of its cells; cells of one label compete in halving.
    task: the task.
    algo: the algorithm.
    flags: of every cell, as `--name=value`.
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
class Cell:
  """One run.

  Attributes:
    name: of its folder.
    label: of its entry.
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


def cells_of(entries: Sequence[Entry]) -> list[Cell]:
  """All cells, first seeds first, so that an early look sees every configuration."""
  cells = [cell for entry in entries for cell in _cells(entry)]
  cells.sort(key=lambda cell: cell.seed)  # stable: within a seed in the order of the grids
  by_name: dict[str, Cell] = {}
  for cell in cells:
    if by_name.setdefault(cell.name, cell) is not cell:
      raise UserError(f"two cells of the sweep are the same, {cell.name}; give each value once.")
  return cells


def _cells(entry: Entry) -> list[Cell]:
  axes = []
  for grid in entry.grids:
    flag = flag_of(grid, entry.task, entry.algo)
    if flag is not None:
      axes.append([(grid.name, value, flag + value) for value in grid.values])
  cells = []
  for point in itertools.product(*axes):
    values = {name: value for name, value, _ in point}
    if len(values) < len(point):
      raise UserError(f"a grid is given twice for {entry.label}; give all its values at once.")
    flags = presets.merge(entry.flags, [flag for _, _, flag in point])
    _check_complete(entry, flags)
    for seed in entry.seeds:
      cells.append(
        Cell(
          name=_folder_name(entry.label, values, seed),
          label=entry.label,
          task=entry.task,
          algo=entry.algo,
          values=values,
          seed=seed,
          flags=(*flags, f"--seed={seed}"),
        )
      )
  return cells


def _check_complete(entry: Entry, flags: Sequence[str]) -> None:
  """Raises `UserError` for unknown hyperparameters and options, and for needed ones that are missing."""
  plain = {flag.removeprefix("--").partition("=")[0] for flag in flags}
  for which, what, known in (
    ("set", f"the algorithm {entry.algo}", signatures.of_algorithm(entry.algo)),
    ("task_set", f"the task {entry.task}", signatures.of_task(entry.task)),
  ):
    given = [flag.split("=")[1] for flag in flags if flag.startswith(f"--{which}=")]
    if known is None:  # the run itself will check them
      continue
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
