"""Saves checkpoints, from which an interrupted run resumes."""

from tff_momentum.simulation.checkpoints import Checkpoints
from tff_momentum.simulation.loop import Round
from tff_momentum.simulation.trainer import Hook


class SaveCheckpoint(Hook):
  """Writes a checkpoint at every save. Put it last: its rows and the best model must be on disk before it."""

  def __init__(self, checkpoints: Checkpoints):
    self._checkpoints = checkpoints

  def save(self, finished: Round) -> None:
    """Writes a checkpoint of the state after this round."""
    self._checkpoints.save(finished.state)
