"""What an algorithm should cost beside fedavg, from its gradients and the weights that it moves.

A client's round is counted in gradients of a batch and in passes over the weights (one elementwise operation,
or one copy). How long each takes on this item and machine is measured, by `competitors.costs`.
"""

from typing import NamedTuple

from experiments.benchmarks import work_items


class Work(NamedTuple):
  """A client's work: gradients and passes in each step, and passes once a round."""

  gradients: int
  passes: int
  once: int


# Once a round: what is uploaded is computed, blanked if the client has no data, weighted and added.
WORK = {
  "fedavg": Work(1, passes=2, once=4),  # y − η g
  "fedavgm": Work(1, passes=2, once=4),
  "ghbm": Work(1, passes=3, once=5),  # y − η g + m
  "scaffold": Work(1, passes=3, once=14),  # y − η (g + e); two uploads, c_i read, made anew, kept
  "mimelite": Work(2, passes=6, once=7),  # y − η (g + β m); a sum of gradients at x beside it
  "mime": Work(3, passes=8, once=8),  # y − η (g(y) − g(x) + c + β m); the sum before it
}


def factor(algorithm: str, item: work_items.Item, costs: dict[str, float]) -> float | None:
  """The expected time as a multiple of fedavg's; None for an algorithm whose work is not counted here."""
  if algorithm not in WORK:
    return None
  steps = item.examples // item.batch

  def seconds(work: Work) -> float:
    passes = steps * work.passes + work.once
    return steps * work.gradients * costs["gradient"] + passes * costs["pass"]

  return seconds(WORK[algorithm]) / seconds(WORK["fedavg"])
