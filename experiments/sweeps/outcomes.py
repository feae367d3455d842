"""What a run has come to, read from its run folder: nothing that a killed sweep could have forgotten."""

import csv
import dataclasses
import json
import math
import pathlib
from collections.abc import Sequence
from typing import Any

from experiments.runs import folder as output

LAST_ROUNDS = 100  # what the papers' tables average over; a tenth of a shorter run
LOWER_IS_BETTER = ("loss", "error", "distance", "perplexity")
PREFERRED = ("accuracy", "r2", "loss")

Row = dict[str, str]


@dataclasses.dataclass(frozen=True)
class Outcome:
  """A cell's state (waiting, running, done, diverged, failed, pruned) and what is known of it.

  Attributes:
    state: one of those.
    rounds: how many are in `metrics.csv`.
    score: the metric's mean over the last rounds, None if there is none.
    metric: which metric that is, as in `metrics.csv` without `eval/`.
    seconds: what its rounds took.
    reason: why it failed.
  """

  state: str
  rounds: int = 0
  score: float | None = None
  metric: str = ""
  seconds: float = 0.0
  reason: str = ""

  @property
  def settled(self) -> bool:
    """Whether there is nothing left to run."""
    return self.state in ("done", "diverged", "pruned")


WAITING = Outcome("waiting")


def outcome(folder: pathlib.Path, rounds: int | None, metric: str | None) -> Outcome:
  """Reads a run folder: `done` if it holds a complete summary of at least so many rounds.

  The score is that of the first `rounds` rounds, so that runs of different lengths can be compared.
  """
  summary = _summary(folder)
  rows = _rows(folder)
  known = Outcome("waiting", len(rows), *_score(rows[:rounds], metric), _seconds(rows))
  if summary is None:
    return known
  if summary.get("diverged") or (rows and output.has_diverged(rows[-1])):
    return dataclasses.replace(known, state="diverged", score=None)
  complete = rounds is None or summary["rounds"] >= rounds
  return dataclasses.replace(known, state="done") if complete else known


def better(metric: str) -> float:
  """1 if more of the metric is better, −1 if less is."""
  return -1.0 if any(word in metric for word in LOWER_IS_BETTER) else 1.0


def _summary(folder: pathlib.Path) -> dict[str, Any] | None:
  try:
    found = json.loads((folder / "summary.json").read_text(encoding="utf-8"))
    return found if isinstance(found.get("rounds"), int) else None
  except (OSError, ValueError, AttributeError):
    return None


def _rows(folder: pathlib.Path) -> list[Row]:
  try:
    with open(folder / "metrics.csv", newline="", encoding="utf-8") as file:
      rows = list(csv.DictReader(file))
  except (OSError, csv.Error, UnicodeDecodeError):
    return []
  return [row for row in rows if None not in row.values()]  # the last may be half written


def _score(rows: Sequence[Row], metric: str | None) -> tuple[float | None, str]:
  evaluated = {
    name.removeprefix("eval/")
    for row in rows
    for name, value in row.items()
    if name.startswith("eval/") and value
  }
  candidates = [name for name in (*PREFERRED, *sorted(evaluated), "") if name in (*evaluated, "")]
  chosen = metric or candidates[0]
  if chosen not in evaluated:
    return None, chosen
  column = f"eval/{chosen}"
  recent = rows[-min(LAST_ROUNDS, max(1, len(rows) // 10)) :]
  values = [float(row[column]) for row in recent if row[column]]
  if not values:  # evaluated less often than that: the last one
    values = [float(row[column]) for row in rows if row[column]][-1:]
  mean = sum(values) / len(values)
  return (mean if math.isfinite(mean) else None), chosen


def _seconds(rows: Sequence[Row]) -> float:
  return sum(
    float(value)
    for row in rows
    for name, value in row.items()
    if name.startswith("seconds/") and value
  )
