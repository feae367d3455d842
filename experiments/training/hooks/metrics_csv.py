"""Writes every round's row to metrics.csv."""

from experiments.runs.folder import RunFolder
from tff_momentum.simulation.loop import Round
from tff_momentum.simulation.trainer import Hook


class MetricsCsv(Hook):
  """Appends each row when its round ends; `RunFolder.start_metrics` has opened the file."""

  def __init__(self, folder: RunFolder):
    self._folder = folder

  def after_round(self, finished: Round) -> None:
    """Appends the round's row."""
    self._folder.write_row(finished.row)

  def save(self, finished: Round) -> None:
    """Forces the rows to disk: a checkpoint needs the rows of all rounds before it."""
    self._folder.sync_metrics()
