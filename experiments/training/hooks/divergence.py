"""Stops a run that has diverged."""

from experiments.runs.divergence import has_diverged
from tff_momentum.simulation.loop import Round
from tff_momentum.simulation.trainer import Hook


class StopOnDivergence(Hook):
  """Stops training when `has_diverged` says so.

  Attributes:
    diverged: whether the last round had diverged.
  """

  def __init__(self) -> None:
    self.diverged = False

  def after_round(self, finished: Round) -> bool:
    """Stops after a round that has diverged."""
    self.diverged = has_diverged(finished.row)
    return self.diverged
