"""The numbers of a report: final values, mean curves over seeds, and costs to reach a target.

A configuration is passed as the list of its runs, which differ only in the seed. `std` is the sample
standard deviation (n − 1).
"""

import math
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from experiments.runs import metric as metrics
from experiments.runs import reader
from experiments.runs.columns import UNUSED_CLIENTS
from experiments.runs.final_value import final_value
from experiments.runs.metric import Metric
from experiments.runs.reader import Run


class Curve(NamedTuple):
  """A column over rounds: mean and standard deviation over seeds (zero for one seed)."""

  rounds: np.ndarray
  mean: np.ndarray
  std: np.ndarray


class Spread(NamedTuple):
  """Mean and standard deviation over seeds; `std` is nan for one seed."""

  mean: float
  std: float


class CostToTarget(NamedTuple):
  """The cost to reach a target; None for costs that were not measured."""

  rounds: float
  bytes: float | None
  flops: float | None
  seconds: float | None


def main_metric(runs: Sequence[Run]) -> Metric:
  """The main metric of the columns by which all runs were evaluated; raises ValueError if there is none.

  A run that diverged before its first evaluation has no such columns and is ignored.
  """
  evaluated = [reader.evaluated(run.columns) for run in runs]
  shared = set.intersection(*filter(None, evaluated)) if any(evaluated) else set()
  found = metrics.main_metric(shared)
  if found is None:
    raise ValueError(
      "metrics.csv should have eval/loss, or a metric such as eval/accuracy; it has neither."
    )
  return found


def final(run: Run, column: str, last: int | None = None) -> float:
  """The final value of a run, nan if it was never evaluated; `last` is that of `final_value`."""
  value = final_value(run.columns, column, last=last)
  return math.nan if value is None else value


def spread(values: Sequence[float]) -> Spread:
  """Mean and standard deviation of the seeds' values."""
  return Spread(
    float(np.mean(values)), float(np.std(values, ddof=1)) if len(values) > 1 else math.nan
  )


def final_spread(runs: Sequence[Run], metric: Metric, last: int | None = None) -> Spread:
  """The final value of a configuration; `last` is that of `final_value`."""
  return spread([final(run, metric.column, last) for run in runs])


def rank(runs: Sequence[Run], metric: Metric, last: int | None = None) -> tuple[bool, float]:
  """A sort key for configurations: the best first, those with a diverged run last."""
  if any(run.diverged for run in runs):
    return True, 0.0
  value = final_spread(runs, metric, last).mean
  return False, -value if metric.larger_is_better else value


def tuning_rank(runs: Sequence[Run], metric: Metric) -> tuple[bool, float]:
  """A sort key that chooses a configuration: by held-out clients if the runs have any, else as `rank`.

  Args:
    runs: the runs of a configuration.
    metric: the metric on the test data.
  """
  held_out = metrics.on_held_out_clients(metric)
  if all(held_out.column in reader.evaluated(run.columns) for run in runs):
    return rank(runs, held_out)
  return rank(runs, metric)


def smoothed(line: Curve, window: int) -> Curve:
  """The moving average of a curve, over fewer values at the ends."""
  ones = np.ones(window)
  there = np.convolve(np.ones(len(line.mean)), ones, "same")
  mean, std = (np.convolve(values, ones, "same") / there for values in (line.mean, line.std))
  return Curve(line.rounds, mean, std)


def curve(runs: Sequence[Run], column: str) -> Curve:
  """The mean curve over the rounds in which every seed has a finite value."""
  values = [_finite_by_round(run, column) for run in runs]
  rounds = sorted(set.intersection(*(set(v) for v in values))) if values else []
  table = np.array([[v[r] for r in rounds] for v in values]).reshape(len(values), len(rounds))
  std = table.std(axis=0, ddof=1) if len(values) > 1 else np.zeros(len(rounds))
  return Curve(np.array(rounds), table.mean(axis=0), std)


def spent(runs: Sequence[Run], what: str, rounds: np.ndarray) -> np.ndarray | None:
  """The mean cost over seeds up to each of these rounds; None if it was not measured."""
  series = [so_far(run, what) for run in runs]
  if any(s is None for s in series):
    return None
  return np.mean([np.interp(rounds, run.columns["round"], s) for run, s in zip(runs, series, strict=True)], 0)  # type: ignore[arg-type]  # fmt: skip


def so_far(run: Run, what: str) -> np.ndarray | None:
  """The cumulative cost of a run by round: rounds, bytes, upload, flops, seconds (of training) or virtual."""
  columns = run.columns
  if what == "rounds":
    return columns["round"]
  totals = {"bytes": "bytes/total", "virtual": "virtual/seconds"}
  if what == "flops":
    return _flops_so_far(columns)
  if what in totals:
    values = columns.get(totals[what])
    return None if values is None or not np.all(np.isfinite(values)) else values
  parts = ("bytes/up",) if what == "upload" else ("seconds/store", "seconds/data", "seconds/train")
  present = [columns[name] for name in parts if name in columns]
  return np.cumsum(np.nan_to_num(np.sum(present, axis=0), posinf=0.0)) if present else None


def _flops_so_far(columns: Mapping[str, np.ndarray]) -> np.ndarray | None:
  """The cumulative FLOPs of all clients, interpolated between the rounds in which FLOPs were counted."""
  each = columns.get("diagnostics/flops", np.array([np.nan]))
  counted = np.isfinite(each)
  if not counted.any():
    return None
  per_client = np.interp(columns["round"], columns["round"][counted], each[counted])
  return np.cumsum(per_client * columns["clients"])


def first_round_at(runs: Sequence[Run], metric: Metric, target: float) -> float | None:
  """The first evaluated round in which the mean curve reaches the target; None if it never does."""
  rounds, mean, _ = curve(runs, metric.column)
  hits = [r for r, value in zip(rounds, mean, strict=True) if metric.better(value, target)]
  return float(hits[0]) if hits else None


def cost_to_target(runs: Sequence[Run], metric: Metric, target: float) -> CostToTarget | None:
  """The cost to reach the target: bytes, FLOPs and training time of the whole run times r/T.

  r is the first round in which the mean curve is at the target, T the number of rounds. This is GHBM's
  Appendix C.3, except that every method, FedAvg included, is charged up to its own first round at the target.
  A whole run of FedAvg against a part of another method's would overstate the savings.

  Returns:
    The cost; None if the target is never reached or a run diverged.
  """
  if any(run.diverged for run in runs):
    return None
  rounds = first_round_at(runs, metric, target)
  if rounds is None:
    return None
  budget = max(run.rounds for run in runs)
  totals = {what: spent(runs, what, np.array([budget])) for what in ("bytes", "flops", "seconds")}
  used = {w: None if t is None else float(t[0]) * rounds / budget for w, t in totals.items()}
  return CostToTarget(rounds, **used)


def bytes_per_client(runs: Sequence[Run]) -> tuple[float, float] | None:
  """Download and upload bytes of one client in one round: the median over rounds."""
  columns = runs[0].columns
  if not {"bytes/down", "bytes/up", "clients"} <= set(columns):
    return None
  uploading = columns["clients"]
  downloading = uploading + sum(columns.get(name, 0) for name in UNUSED_CLIENTS)
  took_part = uploading > 0
  down, up = (
    float(np.median((columns[f"bytes/{way}"] / np.maximum(clients, 1))[took_part]))
    if took_part.any()
    else 0.0
    for way, clients in (("down", downloading), ("up", uploading))
  )
  return down, up


def _finite_by_round(run: Run, column: str) -> dict[float, float]:
  """The values by round, up to the first non-finite one."""
  values: dict[float, float] = {}
  for r, value in zip(run.columns["round"], run.columns.get(column, ()), strict=False):
    if math.isinf(value):
      break
    if not math.isnan(value):
      values[float(r)] = float(value)
  return values
