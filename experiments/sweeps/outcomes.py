"""The outcome of a sweep's run, read from its folder alone, so that a killed sweep loses nothing."""

import dataclasses
import math
import pathlib
from typing import Any

import numpy as np

from experiments.runs import metric as metrics
from experiments.runs import reader
from experiments.runs.columns import EVAL, SECONDS, VALIDATION
from experiments.runs.divergence import has_diverged
from experiments.runs.final_value import final_value


@dataclasses.dataclass(frozen=True)
class Outcome:
  """The state and the result of a run.

  Attributes:
    state: waiting, running, done, diverged, failed or pruned.
    rounds: the number of rounds in `metrics.csv`.
    score: the metric's final value, as `runs.final_value` defines it; None if there is none.
    metric: the metric's column in `metrics.csv`, on the held-out clients if there are any.
    seconds: the wall-clock time of all rounds.
    reason: why the run failed.
    test: the final value of the same metric on the test data; None if there is none.
  """

  state: str
  rounds: int = 0
  score: float | None = None
  metric: str = ""
  seconds: float = 0.0
  reason: str = ""
  test: float | None = None

  @property
  def settled(self) -> bool:
    """Whether there is nothing left to run."""
    return self.state in ("done", "diverged", "pruned")


def outcome(folder: pathlib.Path, rounds: int | None, metric: str | None) -> Outcome:
  """Reads a run folder; the run is `done` if its summary covers at least this many rounds.

  Args:
    folder: the run's folder, which need not exist yet.
    rounds: the rounds to run; the score is that of the first `rounds` rounds, so that runs of different
      lengths can be compared. None for as many as the run has.
    metric: the metric to score by, None for the task's main metric.
  """
  summary, columns = _summary(folder), _columns(folder)
  last = len(columns.get("round", ()))
  score, column = _score(columns, rounds, metric)
  on_test = _final(columns, metrics.on_test_data(column), rounds)
  known = Outcome("waiting", last, score, column, _seconds(columns), test=on_test)
  if summary is None:
    return known
  if summary.get("diverged") or (last and has_diverged(reader.last_row(columns))):
    return dataclasses.replace(known, state="diverged", score=None, test=None)
  complete = rounds is None or summary["rounds"] >= rounds
  return dataclasses.replace(known, state="done") if complete else known


def _summary(folder: pathlib.Path) -> dict[str, Any] | None:
  try:
    found = reader.read_summary(folder)
  except reader.UnusableRun:
    return None
  return found if found is not None and isinstance(found.get("rounds"), int) else None


def _columns(folder: pathlib.Path) -> reader.Columns:
  try:
    return reader.read_metrics(folder / "metrics.csv", running=True)
  except reader.UnusableRun:
    return {}


def _score(
  columns: reader.Columns, rounds: int | None, metric: str | None
) -> tuple[float | None, str]:
  """The final value of the metric, and the metric's column."""
  evaluated = reader.evaluated(columns)
  chosen = metrics.tuning_metric(evaluated)
  if metric is not None:
    validated = VALIDATION + metric in evaluated
    chosen = metrics.named(metric, VALIDATION if validated else EVAL)
  if chosen is None:
    return None, ""
  return _final(columns, chosen.column, rounds), chosen.column


def _final(columns: reader.Columns, column: str, rounds: int | None) -> float | None:
  """The final value of a column; None if it is missing or not finite."""
  value = final_value(columns, column, rounds)
  return value if value is not None and math.isfinite(value) else None


def _seconds(columns: reader.Columns) -> float:
  spent = [np.nansum(values) for name, values in columns.items() if name.startswith(SECONDS)]
  return float(sum(spent))
