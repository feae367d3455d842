"""What may be expected of methods: each function returns one that looks at the results.

To beat is to be better on average and in every seed; what a paper calls equal may be a point worse.
"""

from collections.abc import Callable, Sequence

import numpy as np

from experiments.claim_trials.protocol import Finding, Panel, Results
from experiments.reports import measures
from experiments.runs.metric import Metric

Expectation = Callable[[Results], Finding]
POINT = 0.01


def beats(panel: Panel, better: str, worse: str, at: Panel | None = None) -> Expectation:
  """One method is better than another (at another panel's setting) on average and in every seed."""

  def look(results: Results) -> Finding:
    left, right, said, metric = _compared(results, panel, better, at or panel, worse)
    won = sum(a != b and metric.better(a, b) for a, b in zip(left, right, strict=True))
    seen = won == len(left) and metric.better(float(np.mean(left)), float(np.mean(right)))
    return Finding(seen, f"{said}: better in {won} of {len(left)} seeds")

  return look


def at_least(
  panel: Panel, method: str, other: str, margin: float = POINT, at: Panel | None = None
) -> Expectation:
  """One method is on average at most a margin worse than another (at another panel's setting)."""

  def look(results: Results) -> Finding:
    left, right, said, _ = _compared(results, panel, method, at or panel, other)
    gap = float(np.mean(right) - np.mean(left))
    where = f"{abs(100 * gap):.1f} points {'behind' if gap > 0 else 'ahead'}"
    allowed = f" (up to {100 * margin:g} behind would do)" if margin else ""
    return Finding(gap <= margin, f"{said}: {where}{allowed}")

  return look


def close(panel: Panel, labels: Sequence[str], within: float = 0.02) -> Expectation:
  """Methods differ little."""

  def look(results: Results) -> Finding:
    metric = results.metric(panel)
    means = {label: np.mean(_finals(results, panel, label, metric)) for label in labels}
    gap = max(means.values()) - min(means.values())
    listed = ", ".join(f"{label} {100 * mean:.1f} %" for label, mean in means.items())
    return Finding(gap <= within, f"{_where(panel)}{listed}: {100 * gap:.1f} points apart")

  return look


def same_in(panels: Sequence[Panel], label: str, within: float) -> Expectation:
  """A method ends at the same accuracy in several settings."""

  def look(results: Results) -> Finding:
    means = [np.mean(_finals(results, p, label, results.metric(p))) for p in panels]
    listed = ", ".join(
      f"{p.setting.label} {100 * mean:.1f} %" for p, mean in zip(panels, means, strict=True)
    )
    gap = max(means) - min(means)
    return Finding(gap <= within, f"{label}: {listed}: {100 * gap:.1f} points apart")

  return look


def sooner(panel: Panel, quicker: str, slower: str, level: float) -> Expectation:
  """The mean curve of one method is at a level before that of another, and so are most of its seeds."""

  def look(results: Results) -> Finding:
    metric = results.metric(panel)
    first, second = (results.of(panel, label) for label in (quicker, slower))
    means = [measures.first_round_at(runs, metric, level) for runs in (first, second)]
    pairs = [
      tuple(measures.first_round_at([run], metric, level) or np.inf for run in pair)
      for pair in zip(first, second, strict=True)
    ]
    won = sum(a < b for a, b in pairs)
    seen = means[0] is not None and (means[1] is None or means[0] < means[1])
    said = [f"round {mean:g}" if mean else "never" for mean in means]
    return Finding(
      seen and won > len(pairs) / 2,
      f"{_where(panel)}to {metric.show(level)} %: {quicker} {said[0]}, {slower} {said[1]} (mean curves); "
      f"sooner in {won} of {len(pairs)} seeds",
    )

  return look


def cheaper(panel: Panel, method: str, than: str, what: str, factor: float) -> Expectation:
  """To the other's final value a method spends at most so many times as much; from 1 on, at least.

  What is spent: rounds, bytes, upload, flops, or seconds of training.
  """

  def look(results: Results) -> Finding:
    metric = results.metric(panel)
    target = measures.final_spread(results.of(panel, than), metric).mean
    costs = [_spent(results.of(panel, label), metric, target, what) for label in (method, than)]
    if None in costs:
      missing = method if costs[0] is None else than
      seen = costs[0] is None and factor >= 1
      return Finding(
        seen, f"{_where(panel)}{missing} never reaches {than}’s final {metric.show(target)}"
      )
    ratio = costs[0] / costs[1]  # type: ignore[operator]
    return Finding(
      ratio >= factor if factor >= 1 else ratio <= factor,
      f"{_where(panel)}{_WHAT[what]} to {than}’s final {metric.name}, {metric.show(target)}: {method} spends "
      f"{ratio:.2f} times what {than} does",
    )

  return look


def steady(panels: Sequence[Panel], method: str, other: str, factor: float = 10.0) -> Expectation:
  """From the first setting to the last a method's loss grows less than so many times, another's more."""

  def look(results: Results) -> Finding:
    losses = {
      label: [np.mean(_finals(results, p, label, results.metric(p))) for p in panels]
      for label in (method, other)
    }
    growth = {label: values[-1] / values[0] for label, values in losses.items()}
    listed = "; ".join(
      f"{label} {', '.join(f'{value:.2g}' for value in values)}" for label, values in losses.items()
    )
    where = ", ".join(p.setting.label for p in panels)
    return Finding(growth[method] < factor <= growth[other], f"final loss at {where}: {listed}")

  return look


def best_differs(panels: Sequence[Panel], labels: Sequence[str]) -> Expectation:
  """No method is the best in all settings."""

  def look(results: Results) -> Finding:
    best = []
    for panel in panels:
      metric = results.metric(panel)
      best.append(min(labels, key=lambda label: measures.rank(results.of(panel, label), metric)))
    listed = "; ".join(f"{p.setting.label}: {name}" for p, name in zip(panels, best, strict=True))
    return Finding(len(set(best)) > 1, f"best of {', '.join(labels)}: {listed}")

  return look


def any_of(*parts: Expectation) -> Expectation:
  """At least one is seen."""

  def look(results: Results) -> Finding:
    found = [part(results) for part in parts]
    return Finding(any(f.seen for f in found), "; or ".join(f.text for f in found))

  return look


_WHAT = {"rounds": "rounds", "bytes": "bytes", "upload": "uploaded bytes", "flops": "FLOPs",
         "seconds": "training time"}  # fmt: skip


def _spent(runs: Sequence, metric: Metric, target: float, what: str) -> float | None:
  """What was spent when the mean curve first reached the target; None if it never does.

  Time is that of the median round, for runs share a machine with others.
  """
  hit = measures.first_round_at(runs, metric, target)
  if hit is None:
    return None
  if what == "seconds":
    return hit * float(np.median(np.concatenate([run.columns["seconds/train"] for run in runs])))
  spent = measures.spent(runs, what, np.array([hit]))
  return None if spent is None else float(spent[0])


def _compared(
  results: Results, panel: Panel, one: str, at: Panel, other: str
) -> tuple[list[float], list[float], str, Metric]:
  """Both methods' final values by seed, and how they read."""
  metric = results.metric(panel)
  left, right = _finals(results, panel, one, metric), _finals(results, at, other, metric)
  where = "" if at is panel else f" ({at.setting.label})"
  said = f"{_where(panel)}{one} {_shown(left, metric)}, {other}{where} {_shown(right, metric)}"
  return left, right, said, metric


def _finals(results: Results, panel: Panel, label: str, metric: Metric) -> list[float]:
  """The final value of each seed; a diverged run is as bad as can be."""
  worst = 0.0 if metric.larger_is_better else np.inf
  return [
    worst if run.diverged else measures.final(run, metric.column)
    for run in results.of(panel, label)
  ]


def _shown(values: Sequence[float], metric: Metric) -> str:
  mean, std = measures.spread(values)
  if metric.larger_is_better:
    return f"{100 * mean:.1f} ± {100 * std:.1f} %"
  return f"{mean:.3g} ± {std:.2g}"


def _where(panel: Panel) -> str:
  return f"{panel.setting.label}: "
