"""Successive halving (Jamieson and Talwalkar 2016): short runs of everything, longer ones of the best.

With `--halving=3`, a third of the configurations goes on to three times the rounds, and so on to the end.
Only configurations of one label compete: halving finds each algorithm's best values, it does not choose
between algorithms.
"""

import math
from collections.abc import Mapping, Sequence

from experiments.runs import metric as metrics
from experiments.sweeps.outcomes import Outcome
from experiments.sweeps.search_space import SweepRun


def rungs(rounds: int, configurations: int, keep: int) -> list[int]:
  """The rounds of each rung, rising to `rounds`; as many rungs as it takes to leave one configuration."""
  steps = 0
  while keep ** (steps + 1) <= configurations and rounds // keep ** (steps + 1) >= 1:
    steps += 1
  return [max(1, rounds // keep**step) for step in range(steps, -1, -1)]


def survivors(
  runs: Sequence[SweepRun], outcomes: Mapping[str, Outcome], keep: int
) -> tuple[list[SweepRun], list[SweepRun]]:
  """The runs that go on, and those that do not; a diverged or failed seed counts as the worst."""
  going: list[SweepRun] = []
  leaving: list[SweepRun] = []
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
      (going if alive else leaving).append(run)
  return going, leaving


def _mean_score(found: Sequence[Outcome]) -> float:
  signed = [
    metrics.named(o.metric).sign * o.score
    if o.state == "done" and o.score is not None
    else -math.inf
    for o in found
  ]
  return sum(signed) / len(signed)
