"""Successive halving (Jamieson and Talwalkar 2016): short runs of everything, longer ones of the best.

With `--halving=3`, a third of the configurations goes on to three times the rounds, and so on to the end.
Only configurations of one label compete: halving finds each algorithm's best values, it does not choose
between algorithms.
"""

import math
from collections.abc import Mapping, Sequence

from experiments.sweeps import outcomes as results
from experiments.sweeps.cells import Cell
from experiments.sweeps.outcomes import Outcome


def rungs(rounds: int, configurations: int, keep: int) -> list[int]:
  """The rounds of each rung, rising to `rounds`; as many rungs as it takes to leave one configuration."""
  steps = 0
  while keep ** (steps + 1) <= configurations and rounds // keep ** (steps + 1) >= 1:
    steps += 1
  return [max(1, rounds // keep**step) for step in range(steps, -1, -1)]


def survivors(
  cells: Sequence[Cell], outcomes: Mapping[str, Outcome], keep: int
) -> tuple[list[Cell], list[Cell]]:
  """The cells that go on, and those that do not; a diverged or failed seed counts as the worst."""
  going: list[Cell] = []
  leaving: list[Cell] = []
  for label in dict.fromkeys(cell.label for cell in cells):
    members = [cell for cell in cells if cell.label == label]
    scores = {
      configuration: _mean_score(
        [outcomes[c.name] for c in members if c.configuration == configuration]
      )
      for configuration in dict.fromkeys(cell.configuration for cell in members)
    }
    ranked = sorted(scores, key=lambda configuration: -scores[configuration])
    best = set(ranked[: math.ceil(len(ranked) / keep)])
    for cell in members:
      alive = cell.configuration in best and scores[cell.configuration] > -math.inf
      (going if alive else leaving).append(cell)
  return going, leaving


def _mean_score(found: Sequence[Outcome]) -> float:
  signed = [
    results.better(o.metric) * o.score if o.state == "done" and o.score is not None else -math.inf
    for o in found
  ]
  return sum(signed) / len(signed)
