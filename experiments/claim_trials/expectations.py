"""Expectations: each function returns another one that tests the results for one part of a claim.

One method beats another if it is better on average and in every seed. A method that a paper calls equal to
another may be one point worse.
"""

from collections.abc import Callable, Sequence

import numpy as np

from experiments.claim_trials.claim import Diagnostic, Finding, Panel, Results
from experiments.reports import measures
from experiments.runs.metric import Metric
from experiments.runs.reader import Run

Expectation = Callable[[Results], Finding]
POINT = 0.01


def beats(panel: Panel, better: str, worse: str, at: Panel | None = None) -> Expectation:
  """One method is better than another on average and in every seed; `at` is the other's panel."""

  def test(results: Results) -> Finding:
    left, right, text, metric = _compared(results, panel, better, at or panel, worse)
    won = sum(a != b and metric.better(a, b) for a, b in zip(left, right, strict=True))
    holds = won == len(left) and metric.better(_mean(left), _mean(right))
    return Finding(holds, f"{text}: better in {won} of {len(left)} seeds")

  return test


def at_least(
  panel: Panel, method: str, other: str, margin: float = POINT, at: Panel | None = None
) -> Expectation:
  """One method is on average at most `margin` worse than another; `at` is the other's panel."""

  def test(results: Results) -> Finding:
    left, right, text, _ = _compared(results, panel, method, at or panel, other)
    gap = _mean(right) - _mean(left)
    where = f"{abs(100 * gap):.1f} points {'behind' if gap > 0 else 'ahead'}"
    allowed = f" (up to {100 * margin:g} behind is accepted)" if margin else ""
    return Finding(gap <= margin, f"{text}: {where}{allowed}")

  return test


def ahead(panel: Panel, method: str, other: str, by: float) -> Expectation:
  """One method is on average better than another by at least `by`."""

  def test(results: Results) -> Finding:
    left, right, text, _ = _compared(results, panel, method, panel, other)
    gap = _mean(left) - _mean(right)
    where = f"{abs(100 * gap):.1f} points {'ahead' if gap > 0 else 'behind'}"
    return Finding(gap >= by, f"{text}: {where} (at least {100 * by:g} ahead is expected)")

  return test


def smaller(diagnostic: Diagnostic, method: str, other: str) -> Expectation:
  """A diagnostic's mean over the measured rounds is smaller for one method, on average and in every seed."""

  def test(results: Results) -> Finding:
    left, right = (
      [float(v.mean()) for v in diagnostic.values(results.of(diagnostic.panel, label))]
      for label in (method, other)
    )
    won = sum(a < b for a, b in zip(left, right, strict=True))
    shown = [f"{label} {_mean(v):.3g}" for label, v in ((method, left), (other, right))]
    text = f"{_where(diagnostic.panel)}{diagnostic.label}: {', '.join(shown)}"
    return Finding(won == len(left), f"{text}: smaller in {won} of {len(left)} seeds")

  return test


def below(diagnostic: Diagnostic, label: str, bound: float) -> Expectation:
  """A diagnostic's median over the measured rounds is below `bound`, on average over seeds."""

  def test(results: Results) -> Finding:
    medians = [float(np.median(v)) for v in diagnostic.values(results.of(diagnostic.panel, label))]
    found = _mean(medians)
    text = (
      f"{_where(diagnostic.panel)}{diagnostic.label} of {label}: {found:.3g} (median over rounds)"
    )
    return Finding(found < bound, f"{text}, in the paper below {bound:g} in most rounds")

  return test


def close(panel: Panel, labels: Sequence[str], within: float = 0.02) -> Expectation:
  """The methods' means differ by at most `within`."""

  def test(results: Results) -> Finding:
    metric = results.metric(panel)
    means = {label: _mean(_finals(results, panel, label, metric)) for label in labels}
    gap = max(means.values()) - min(means.values())
    listed = ", ".join(f"{label} {100 * mean:.1f} %" for label, mean in means.items())
    return Finding(gap <= within, f"{_where(panel)}{listed}: {100 * gap:.1f} points apart")

  return test


def same_in(panels: Sequence[Panel], label: str, within: float) -> Expectation:
  """A method's means in several settings differ by at most `within`."""

  def test(results: Results) -> Finding:
    means = [_mean(_finals(results, p, label, results.metric(p))) for p in panels]
    listed = ", ".join(
      f"{p.setting.label} {100 * mean:.1f} %" for p, mean in zip(panels, means, strict=True)
    )
    gap = max(means) - min(means)
    return Finding(gap <= within, f"{label}: {listed}: {100 * gap:.1f} points apart")

  return test


def sooner(panel: Panel, quicker: str, slower: str, level: float) -> Expectation:
  """One method reaches a level in fewer rounds than another: its mean curve, and most of its seeds."""

  def test(results: Results) -> Finding:
    metric = results.metric(panel)
    first, second = (results.of(panel, label) for label in (quicker, slower))
    means = [measures.first_round_at(runs, metric, level) for runs in (first, second)]
    pairs = [
      tuple(measures.first_round_at([run], metric, level) or np.inf for run in pair)
      for pair in zip(first, second, strict=True)
    ]
    won = sum(a < b for a, b in pairs)
    holds = means[0] is not None and (means[1] is None or means[0] < means[1])
    texts = [f"{mean:g}" if mean else "never" for mean in means]
    return Finding(
      holds and won > len(pairs) / 2,
      f"{_where(panel)}rounds to {metric.show(level)} % (mean curves): {quicker} {texts[0]}, {slower} "
      f"{texts[1]}; sooner in {won} of {len(pairs)} seeds",
    )

  return test


def as_printed(panel: Panel, label: str, within: float) -> Expectation:
  """A method's mean differs by at most `within` from the number that the paper prints for it."""

  def test(results: Results) -> Finding:
    metric = results.metric(panel)
    found = _finals(results, panel, label, metric)
    gap = _mean(found) - _printed(panel, label)
    return Finding(
      abs(gap) <= within,
      f"{_where(panel)}{label} {_shown(found, metric)}, in the paper {panel.printed[label]} %: "
      f"{abs(100 * gap):.1f} points {'above' if gap > 0 else 'below'}",
    )

  return test


def ranked_as_printed(panel: Panel, labels: Sequence[str]) -> Expectation:
  """The methods' means are in the order of the numbers that the paper prints."""

  def test(results: Results) -> Finding:
    metric = results.metric(panel)
    means = {label: _mean(_finals(results, panel, label, metric)) for label in labels}
    ours = sorted(labels, key=lambda label: -means[label])
    paper = sorted(labels, key=lambda label: -_printed(panel, label))
    text = f"{_where(panel)}from best to worst {', '.join(ours)}; in the paper {', '.join(paper)}"
    return Finding(ours == paper, text)

  return test


def cheaper(
  panel: Panel, method: str, than: str, what: str, factor: float, *, whole: bool = False
) -> Expectation:
  """Compares the cost of two methods to reach the other method's final value.

  Args:
    panel: the panel of both methods.
    method: the method.
    than: the other method, whose final value is the target.
    what: the cost: rounds, bytes, upload, flops, or seconds of training.
    factor: below 1, the method needs at most this share of the other's cost; from 1, at least this multiple.
    whole: charge the other method for all its rounds; by default, until its mean curve first reaches its own
      final value.
  """

  def test(results: Results) -> Finding:
    metric = results.metric(panel)
    target = results.final(panel, than).mean
    cost, reference = (
      _spent(results.of(panel, label), metric, target, what) for label in (method, than)
    )
    if whole:
      reference = _cost(results.of(panel, than), what, panel.setting.rounds)
    if cost is None or reference is None:
      missing = method if cost is None else than
      text = f"{_where(panel)}{missing} never reaches {than}’s final {metric.show(target)}"
      return Finding(cost is None and factor >= 1, text)
    ratio = cost / reference
    return Finding(
      ratio >= factor if factor >= 1 else ratio <= factor,
      f"{_where(panel)}{_COSTS[what]} to reach {than}’s final {metric.name}, {metric.show(target)}: {method} "
      f"/ {than}{' (all its rounds)' if whole else ''} = {ratio:.2f}",
    )

  return test


def steady(
  panels: Sequence[Panel], method: str, other: str, factor: float = 10.0, floor: float = 0.0
) -> Expectation:
  """From the first setting to the last, a method's loss grows by less than `factor`, another's by more.

  Losses below `floor` count as `floor`: what remains there is rounding.
  """

  def test(results: Results) -> Finding:
    losses = {
      label: [_mean(_finals(results, p, label, results.metric(p))) for p in panels]
      for label in (method, other)
    }
    growth = {label: max(v[-1], floor) / max(v[0], floor) for label, v in losses.items()}
    listed = "; ".join(
      f"{label} {', '.join(f'{value:.2g}' for value in values)}" for label, values in losses.items()
    )
    where = ", ".join(p.setting.label for p in panels)
    return Finding(growth[method] < factor <= growth[other], f"final loss at {where}: {listed}")

  return test


def best_differs(panels: Sequence[Panel], labels: Sequence[str]) -> Expectation:
  """No method is best in all settings."""

  def test(results: Results) -> Finding:
    best = []
    for panel in panels:
      metric = results.metric(panel)
      last = panel.setting.last_rounds
      ranks = {label: measures.rank(results.of(panel, label), metric, last) for label in labels}
      best.append(min(labels, key=lambda label: ranks[label]))
    listed = "; ".join(f"{p.setting.label}: {name}" for p, name in zip(panels, best, strict=True))
    return Finding(len(set(best)) > 1, f"best of {', '.join(labels)}: {listed}")

  return test


def any_of(*parts: Expectation) -> Expectation:
  """At least one of the expectations holds."""

  def test(results: Results) -> Finding:
    found = [part(results) for part in parts]
    return Finding(any(f.holds for f in found), "; or ".join(f.text for f in found))

  return test


_COSTS = {"rounds": "rounds", "bytes": "bytes", "upload": "uploaded bytes", "flops": "FLOPs",
          "seconds": "training time"}  # fmt: skip


def _spent(runs: Sequence[Run], metric: Metric, target: float, what: str) -> float | None:
  """The cost until the mean curve first reaches the target; None if it never does."""
  hit = measures.first_round_at(runs, metric, target)
  return None if hit is None else _cost(runs, what, hit)


def _cost(runs: Sequence[Run], what: str, rounds: float) -> float | None:
  """The cost of this many rounds; None if it was not measured.

  Time is the number of rounds times the median round's time, because other load on the machine slows rounds.
  """
  if what == "seconds":
    return rounds * float(np.median(np.concatenate([run.columns["seconds/train"] for run in runs])))
  spent = measures.spent(runs, what, np.array([rounds]))
  return None if spent is None else float(spent[0])


def _compared(
  results: Results, panel: Panel, one: str, at: Panel, other: str
) -> tuple[list[float], list[float], str, Metric]:
  """Both methods' final values by seed, their description, and the metric."""
  metric = results.metric(panel)
  left, right = _finals(results, panel, one, metric), _finals(results, at, other, metric)
  where = "" if at is panel else f" ({at.setting.label})"
  text = f"{_where(panel)}{one} {_shown(left, metric)}, {other}{where} {_shown(right, metric)}"
  return left, right, text, metric


def _finals(results: Results, panel: Panel, label: str, metric: Metric) -> list[float]:
  """The final value of each seed; a diverged run has the worst possible value."""
  worst = 0.0 if metric.larger_is_better else np.inf
  return [
    worst if run.diverged else measures.final(run, metric.column, panel.setting.last_rounds)
    for run in results.of(panel, label)
  ]


def _printed(panel: Panel, label: str) -> float:
  """The paper's mean, which it prints in percent as in "83.8 ± 0.5"."""
  return float(panel.printed[label].split()[0]) / 100


def _mean(values: Sequence[float]) -> float:
  return float(np.mean(values))


def _shown(values: Sequence[float], metric: Metric) -> str:
  mean, std = measures.spread(values)
  if metric.larger_is_better:
    return f"{100 * mean:.1f} ± {100 * std:.1f} %"
  return f"{mean:.3g} ± {std:.2g}"


def _where(panel: Panel) -> str:
  return f"{panel.setting.label}: "
