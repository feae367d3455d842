"""What the trackers of `--track` have in common."""

import abc
import sys

from experiments.runs.divergence import has_diverged
from tff_momentum.simulation.loop import Round
from tff_momentum.simulation.trainer import Hook


class Tracker(Hook, abc.ABC):
  """Sends each round's row to a tracker.

  A tracker that fails during training, for example because its server is gone, ends with one sentence on
  stderr; the run goes on, because its own folder has everything.
  """

  title: str

  def __init__(self, total_rounds: int):
    """Takes the number of all rounds, by which the end tells a finished run from a stopped one."""
    self._total_rounds = total_rounds
    self._last: Round | None = None
    self._failed = False

  @abc.abstractmethod
  def send(self, finished: Round) -> None:
    """Sends a round's row."""

  @abc.abstractmethod
  def close(self, outcome: str) -> None:
    """Ends the tracked run; the outcome is "finished", "diverged" or "stopped"."""

  def after_round(self, finished: Round) -> None:
    """Sends the round's row, unless the tracker has failed."""
    self._last = finished
    self._try(lambda: self.send(finished))

  def end(self) -> None:
    """Ends the tracked run."""
    self._try(lambda: self.close(self._outcome()))

  def _outcome(self) -> str:
    if self._last is None:
      return "stopped"
    if has_diverged(self._last.row):
      return "diverged"
    return "finished" if self._last.number + 1 == self._total_rounds else "stopped"

  def _try(self, action) -> None:
    if self._failed:
      return
    try:
      action()
    except Exception as error:
      self._failed = True
      text = " ".join(str(error).split())[:300]
      print(f"{self.title} failed ({text}); the run goes on without it.", file=sys.stderr)
