"""Reads run folders as `folder.py` writes them. A folder that cannot be used is skipped with one sentence."""

import csv
import dataclasses
import json
import math
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from experiments.runs.columns import EVAL, VALIDATION
from experiments.runs.divergence import has_diverged

# metrics.csv by column. A value that was not measured is nan; one that was measured and is not finite is inf.
Columns = Mapping[str, np.ndarray]


class UnusableRun(Exception):
  """Why a run folder cannot be used, in one sentence without the folder's name."""


@dataclasses.dataclass(frozen=True)
class Run:
  """A finished run.

  Attributes:
    path: its folder.
    config: `config.json`.
    columns: `metrics.csv` by column.
    diverged: whether it diverged, by the rule of `divergence.has_diverged`.
  """

  path: pathlib.Path
  config: Mapping[str, Any]
  columns: Columns
  diverged: bool

  @property
  def rounds(self) -> int:
    """The number of the last round."""
    return int(self.columns["round"][-1])


def read_all(paths: Sequence[str]) -> tuple[list[Run], list[str]]:
  """Reads the runs in these folders and below them; returns them, and a sentence for each skipped folder."""
  runs, problems = [], []
  for given in paths:
    folders = list(run_folders(pathlib.Path(given)))
    if not folders:
      problems.append(
        f"{given}: expected a run folder (with config.json) or a folder of them; found none."
      )
    for folder in folders:
      try:
        runs.append(read(folder))
      except UnusableRun as reason:
        problems.append(f"{folder}: {reason}")
  return _without_repeated_folders(runs), list(dict.fromkeys(problems))


def run_folders(path: pathlib.Path) -> Iterator[pathlib.Path]:
  """The run folders at or below a path, in alphabetical order."""
  for folder, below, files in os.walk(path):
    below.sort()
    if "config.json" in files:
      below.clear()  # a run folder contains no other runs
      yield pathlib.Path(folder)


def read(folder: pathlib.Path) -> Run:
  """Reads a finished run; raises `UnusableRun`."""
  config = read_config(folder / "config.json")
  summary = read_summary(folder)
  if summary is None:
    raise UnusableRun("the run has not finished (no summary.json); run the same command to resume.")
  if folder.name in _pruned(folder.parent):
    raise UnusableRun("its sweep pruned it; see sweep.md in the folder above for its value.")
  columns = read_metrics(folder / "metrics.csv")
  diverged = bool(summary.get("diverged")) or has_diverged(last_row(columns))
  return Run(folder, config, columns, diverged)


def read_config(path: pathlib.Path) -> dict[str, Any]:
  """Reads a run's config.json; raises `UnusableRun`."""
  config = read_json(path)
  for name, kind in (("task", str), ("algo", str), ("seed", int)):
    if not isinstance(config.get(name), kind):
      raise UnusableRun(f"{path.name} should name the run's {name}; found {config.get(name)!r}.")
  for name in ("hyperparameters", "task_details", "versions"):
    if not isinstance(config.get(name, {}), dict):
      raise UnusableRun(f"{path.name} should hold {name} by name; found {config[name]!r}.")
  return config


def read_summary(folder: pathlib.Path) -> dict[str, Any] | None:
  """Reads a run's summary.json, None if the run has not finished; raises `UnusableRun`."""
  path = folder / "summary.json"
  return read_json(path) if path.exists() else None


def read_metrics(path: pathlib.Path, *, running: bool = False) -> dict[str, np.ndarray]:
  """Reads metrics.csv; raises `UnusableRun`.

  Args:
    path: the file.
    running: whether a run may be writing the file: its last row may then be incomplete, and is ignored.
  """
  try:
    with open(path, newline="", encoding="utf-8") as file:
      header, *rows = [row for row in csv.reader(file) if row] or [[]]
  except OSError as error:
    raise UnusableRun(f"{path.name} cannot be read ({error.strerror}).") from None
  except (UnicodeDecodeError, csv.Error):
    raise UnusableRun(f"{path.name} is not a table of text.") from None
  if running and rows and len(rows[-1]) != len(header):
    rows.pop()
  if "round" not in header or not rows:
    raise UnusableRun(f"{path.name} should have a column 'round' and at least one row.")
  if len(set(header)) != len(header):
    raise UnusableRun(f"{path.name} has two columns with the same name.")
  for number, row in enumerate(rows, 1):
    if len(row) != len(header):
      raise UnusableRun(
        f"row {number} of {path.name} has {len(row)} values for {len(header)} columns."
      )
  columns = {
    name: np.array([_number(row[i], path, number, name) for number, row in enumerate(rows, 1)])
    for i, name in enumerate(header)
  }
  if not np.all(np.isfinite(columns["round"])) or np.any(np.diff(columns["round"]) <= 0):
    raise UnusableRun(f"the rounds of {path.name} should increase from row to row.")
  return columns


def last_row(columns: Columns) -> dict[str, float]:
  """The values that were measured in the last round."""
  last = {name: float(values[-1]) for name, values in columns.items()}
  return {name: value for name, value in last.items() if not math.isnan(value)}


def evaluated(columns: Columns) -> set[str]:
  """The columns of the test and validation data that have a value in at least one round."""
  return {
    name
    for name, values in columns.items()
    if name.startswith((EVAL, VALIDATION)) and not np.isnan(values).all()
  }


def _pruned(folder: pathlib.Path) -> set[str]:
  """The runs that a sweep in this folder stopped early, which must not be compared with complete ones."""
  if not (folder / "sweep.json").exists():
    return set()
  cells = read_json(folder / "sweep.json").get("cells", [])
  return {cell["name"] for cell in cells if cell.get("state") == "pruned"}


def read_json(path: pathlib.Path) -> dict[str, Any]:
  """Reads a JSON file of values by name; raises `UnusableRun`."""
  try:
    found = json.loads(path.read_text(encoding="utf-8"))
  except OSError as error:
    raise UnusableRun(f"{path.name} cannot be read ({error.strerror}).") from None
  except (ValueError, RecursionError):
    raise UnusableRun(f"{path.name} is not JSON; it may be incomplete.") from None
  if not isinstance(found, dict):
    raise UnusableRun(f"{path.name} should hold values by name; found a {type(found).__name__}.")
  return found


def _number(text: str, path: pathlib.Path, row: int, column: str) -> float:
  if text == "":
    return math.nan
  try:
    value = float(text)
  except ValueError:
    raise UnusableRun(
      f"row {row} of {path.name} should have a number as {column}; found {text[:40]!r}."
    ) from None
  return value if math.isfinite(value) else math.inf


def _without_repeated_folders(runs: Iterable[Run]) -> list[Run]:
  return list({run.path.resolve(): run for run in reversed(list(runs))}.values())[::-1]
