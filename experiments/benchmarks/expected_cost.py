"""The expected cost of an algorithm relative to fedavg, from its gradients and passes over the weights.

A client's round is counted in gradients of a batch and in passes over the weights (one elementwise operation
or one copy). `competitors.costs` measures the time of each on this machine.
"""

from typing import NamedTuple

from experiments.benchmarks import work_items


class Work(NamedTuple):
  """A client's work: gradients and passes per local step, and passes once per round."""

  gradients: int
  passes: int
  once: int


# Once per round: the upload is computed, zeroed if the client has no data, weighted and summed.
WORK = {
  "fedavg": Work(1, passes=2, once=4),  # y − η g
  "fedavgm": Work(1, passes=2, once=4),
  "ghbm": Work(1, passes=3, once=5),  # y − η g + m
  "scaffold": Work(
    1, passes=3, once=14
  ),  # y − η (g + e); two uploads; c_i is read, recomputed and stored
  "mimelite": Work(2, passes=6, once=7),  # y − η (g + β m); also sums gradients at x
  "mime": Work(3, passes=8, once=8),  # y − η (g(y) − g(x) + c + β m); sums gradients before
}


def factor(algorithm: str, item: work_items.Item, costs: dict[str, float]) -> float | None:
  """The expected time as a multiple of fedavg's; None for an algorithm that is not in `WORK`."""
  if algorithm not in WORK:
    return None
  steps = item.examples // item.batch

  def seconds(work: Work) -> float:
    passes = steps * work.passes + work.once
    return steps * work.gradients * costs["gradient"] + passes * costs["pass"]

  return seconds(WORK[algorithm]) / seconds(WORK["fedavg"])
