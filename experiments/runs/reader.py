"""Reads run folders as `experiments/runs/folder.py` writes them. One that cannot be used costs a sentence."""

import csv
import dataclasses
import json
import math
import os
import pathlib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np


class Unusable(Exception):
  """Why a folder cannot be used, in one sentence without its name."""


@dataclasses.dataclass(frozen=True)
class Run:
  """A finished run.

  Attributes:
    path: its folder.
    config: `config.json`.
    columns: `metrics.csv` by column. Not measured in a round is nan; measured and not finite is inf.
    diverged: whether the loss or a metric ended up not finite.
  """

  path: pathlib.Path
  config: Mapping[str, Any]
  columns: Mapping[str, np.ndarray]
  diverged: bool

  @property
  def rounds(self) -> int:
    """The number of the last round."""
    return int(self.columns["round"][-1])


def read_all(paths: Sequence[str]) -> tuple[list[Run], list[str]]:
  """Reads the runs in these folders, or below them; returns them, and what was left out and why."""
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
      except Unusable as reason:
        problems.append(f"{folder}: {reason}")
  return _without_repeated_folders(runs), list(dict.fromkeys(problems))


def run_folders(path: pathlib.Path) -> Iterator[pathlib.Path]:
  """The run folders at or below a path, in the order of their names."""
  for folder, below, files in os.walk(path):
    below.sort()
    if "config.json" in files:
      below.clear()  # what a run keeps inside is its own
      yield pathlib.Path(folder)


def read(folder: pathlib.Path) -> Run:
  """Reads one run; raises `Unusable`."""
  config = _json(folder / "config.json")
  for name, kind in (("task", str), ("algo", str), ("seed", int)):
    if not isinstance(config.get(name), kind):
      raise Unusable(f"config.json should name the run's {name}; found {config.get(name)!r}.")
  for name in ("hyperparameters", "task_details", "versions"):
    if not isinstance(config.get(name, {}), dict):
      raise Unusable(f"config.json should hold {name} by name; found {config[name]!r}.")
  if not (folder / "summary.json").exists():
    raise Unusable(
      "the run has not finished (no summary.json); run the same command again to go on."
    )
  if folder.name in _pruned(folder.parent):
    raise Unusable("the sweep it belongs to pruned it; sweep.md beside it has its value.")
  columns = _columns(folder / "metrics.csv")
  diverged = bool(_json(folder / "summary.json").get("diverged")) or _ends_badly(columns)
  return Run(folder, config, columns, diverged)


def _pruned(folder: pathlib.Path) -> set[str]:
  """The cells that a sweep in this folder stopped early: shorter runs, not to be compared with whole ones."""
  if not (folder / "sweep.json").exists():
    return set()
  cells = _json(folder / "sweep.json").get("cells", [])
  return {cell["name"] for cell in cells if cell.get("state") == "pruned"}


def _json(path: pathlib.Path) -> dict[str, Any]:
  try:
    found = json.loads(path.read_text(encoding="utf-8"))
  except OSError as error:
    raise Unusable(f"{path.name} cannot be read ({error.strerror}).") from None
  except (ValueError, RecursionError):
    raise Unusable(f"{path.name} is not JSON; it may have been cut off.") from None
  if not isinstance(found, dict):
    raise Unusable(f"{path.name} should hold values by name; found a {type(found).__name__}.")
  return found


def _columns(path: pathlib.Path) -> dict[str, np.ndarray]:
  try:
    with open(path, newline="", encoding="utf-8") as file:
      header, *rows = [row for row in csv.reader(file) if row] or [[]]
  except OSError as error:
    raise Unusable(f"{path.name} cannot be read ({error.strerror}).") from None
  except (UnicodeDecodeError, csv.Error):
    raise Unusable(f"{path.name} is not a table of text.") from None
  if "round" not in header or not rows:
    raise Unusable(f"{path.name} should have a column 'round' and at least one row; it has not.")
  if len(set(header)) != len(header):
    raise Unusable(f"{path.name} names a column twice.")
  for number, row in enumerate(rows, 1):
    if len(row) != len(header):
      raise Unusable(
        f"row {number} of {path.name} has {len(row)} values for {len(header)} columns."
      )
  columns = {
    name: np.array([_number(row[i], path, number, name) for number, row in enumerate(rows, 1)])
    for i, name in enumerate(header)
  }
  if not np.all(np.isfinite(columns["round"])) or np.any(np.diff(columns["round"]) <= 0):
    raise Unusable(f"the rounds of {path.name} should grow from row to row; they do not.")
  return columns


def _number(text: str, path: pathlib.Path, row: int, column: str) -> float:
  if text == "":
    return math.nan
  try:
    value = float(text)
  except ValueError:
    raise Unusable(
      f"row {row} of {path.name} should have a number as {column}; found {text[:40]!r}."
    ) from None
  return value if math.isfinite(value) else math.inf


def _ends_badly(columns: Mapping[str, np.ndarray]) -> bool:
  """Whether the last value of a loss or metric is not finite."""
  watched = [values for name, values in columns.items() if name.startswith(("train/", "eval/"))]
  measured = [values[~np.isnan(values)] for values in watched]
  return any(len(values) and np.isinf(values[-1]) for values in measured)


def _without_repeated_folders(runs: Iterable[Run]) -> list[Run]:
  return list({run.path.resolve(): run for run in reversed(list(runs))}.values())[::-1]
