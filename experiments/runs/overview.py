"""Run folders at a glance: finished, diverged, unfinished and running ones."""

import dataclasses
import datetime
import fcntl
import json
import pathlib
from collections.abc import Iterator, Mapping, Sequence

from experiments.runs import metric as metrics
from experiments.runs import reader
from experiments.runs.final_value import final_value

# Values of config.json that differ between any two runs.
NOT_COMPARED = ("experiment_name",)


@dataclasses.dataclass(frozen=True)
class RunOverview:
  """A run folder.

  Attributes:
    path: the folder.
    config: its config.json.
    rounds: the number of rounds in its metrics.csv.
    metric: the metric that ranks its runs; None if nothing was evaluated.
    value: the metric's final value.
    state: "finished", "diverged", "unfinished" or "running".
    written: when a round was last written, in seconds since 1970.
  """

  path: pathlib.Path
  config: Mapping[str, object]
  rounds: int
  metric: metrics.Metric | None
  value: float | None
  state: str
  written: float


def read_below(path: pathlib.Path) -> Iterator[RunOverview]:
  """The runs at and below a path; a folder whose config.json is not that of a run is skipped."""
  for folder in reader.run_folders(path):
    try:
      yield read(folder)
    except reader.UnusableRun:
      continue


def read(folder: pathlib.Path) -> RunOverview:
  """Reads a run folder; raises `UnusableRun` if it is none."""
  config = reader.read_config(folder / "config.json")
  try:
    columns: reader.Columns = reader.read_metrics(folder / "metrics.csv", running=True)
  except reader.UnusableRun:
    columns = {}
  ranked_by = metrics.main_metric(reader.evaluated(columns))
  newest = folder / ("metrics.csv" if columns else "config.json")
  return RunOverview(
    path=folder,
    config=config,
    rounds=len(columns.get("round", ())),
    metric=ranked_by,
    value=None if ranked_by is None else final_value(columns, ranked_by.column),
    state=_state(folder),
    written=newest.stat().st_mtime,
  )


def table(runs: Sequence[RunOverview]) -> str:
  """One line per run."""
  rows = [("run", "task", "algo", "rounds", "final value", "state", "date")]
  rows += [
    (
      str(run.path),
      str(run.config["task"]),
      str(run.config["algo"]),
      f"{run.rounds}/{run.config.get('total_rounds', '?')}",
      _value(run),
      run.state,
      f"{datetime.datetime.fromtimestamp(run.written):%Y-%m-%d %H:%M}",
    )
    for run in runs
  ]
  return _aligned(rows)


def comparison(runs: Sequence[RunOverview]) -> str:
  """The values of config.json that differ, then the results, with a column for each run."""
  flat = [_flat(run.config) for run in runs]
  names = [
    name for name in dict.fromkeys(n for each in flat for n in each) if name not in NOT_COMPARED
  ]
  rows = [("", *(str(run.path) for run in runs))]
  for name in names:
    texts = [each.get(name, "–") for each in flat]
    if len(set(texts)) > 1:
      rows.append((name, *texts))
  if len(rows) == 1:
    rows.append(("configuration", *("the same" for _ in runs)))
  rows.append(("rounds run", *(str(run.rounds) for run in runs)))
  rows.append(("final value", *(_value(run) for run in runs)))
  rows.append(("state", *(run.state for run in runs)))
  return _aligned(rows)


def _state(folder: pathlib.Path) -> str:
  if _is_locked(folder / ".lock"):
    return "running"
  try:
    summary = reader.read_summary(folder)
  except reader.UnusableRun:
    summary = None
  if summary is None:
    return "unfinished"
  return "diverged" if summary.get("diverged") else "finished"


def _is_locked(path: pathlib.Path) -> bool:
  """Whether a run holds its folder."""
  try:
    with open(path) as file:
      fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
  except BlockingIOError:
    return True
  except OSError:
    return False
  return False


def _value(run: RunOverview) -> str:
  if run.metric is None or run.value is None:
    return "–"
  return f"{run.metric.name} {run.value:.4g}"


def _flat(config: Mapping[str, object], prefix: str = "") -> dict[str, str]:
  """The values by name as text; those of inner dictionaries as `hyperparameters.beta`."""
  found: dict[str, str] = {}
  for name, value in config.items():
    if isinstance(value, dict):
      found.update(_flat(value, f"{prefix}{name}."))
    else:
      found[prefix + name] = value if isinstance(value, str) else json.dumps(value)
  return found


def _aligned(rows: Sequence[Sequence[str]]) -> str:
  widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
  return "\n".join(
    "  ".join(cell.ljust(width) for cell, width in zip(row, widths, strict=True)).rstrip()
    for row in rows
  )
