"""Successive halving (Jamieson and Talwalkar 2016): short runs of all configurations, long ones of the best.

With `--halving=3`, the best third of the configurations continues to three times the rounds, and so on until
the full number of rounds. Only configurations with the same label compete: halving tunes each algorithm and
does not choose between algorithms.
"""

import math
from collections.abc import Mapping, Sequence

from experiments.runs import metric as metrics
from experiments.sweeps.outcomes import Outcome
from experiments.sweeps.search_space import SweepRun


def rungs(rounds: int, configurations: int, keep: int) -> list[int]:
  """The rounds of each rung, rising to `rounds`; enough rungs to leave one configuration."""
  steps = 0
  while keep ** (steps + 1) <= configurations and rounds // keep ** (steps + 1) >= 1:
    steps += 1
  return [max(1, rounds // keep**step) for step in range(steps, -1, -1)]


def survivors(
  runs: Sequence[SweepRun], outcomes: Mapping[str, Outcome], keep: int
) -> tuple[list[SweepRun], list[SweepRun]]:
  """Splits runs into those that continue and those that do not; a diverged or failed seed ranks worst."""
  kept: list[SweepRun] = []
  pruned: list[SweepRun] = []
  for label in dict.fromkeys(run.label for run in runs):
    members = [run for run in runs if run.label == label]
    scores = {
      configuration: _mean_score(
        [outcomes[c.name] for c in members if c.configuration == configuration]
      )
      for configuration in dict.fromkeys(run.configuration for run in members)
    }
    ranked = sorted(scores, key=lambda configuration: -scores[configuration])
    best = set(ranked[: math.ceil(len(ranked) / keep)])
    for run in members:
      alive = run.configuration in best and scores[run.configuration] > -math.inf
      (kept if alive else pruned).append(run)
  return kept, pruned


def _mean_score(found: Sequence[Outcome]) -> float:
  signed = [
    metrics.named(o.metric).sign * o.score
    if o.state == "done" and o.score is not None
    else -math.inf
    for o in found
  ]
  return sum(signed) / len(signed)
