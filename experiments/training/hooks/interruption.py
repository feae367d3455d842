"""Ends a run after the current round on Ctrl-C or on a batch system's SIGTERM."""

import signal
import sys
from types import FrameType

from tff_momentum.simulation.loop import Round
from tff_momentum.simulation.trainer import Hook


class StopOnSignal(Hook):
  """Stops training after the round in which SIGINT or SIGTERM arrives; a second one stops it immediately."""

  def __init__(self) -> None:
    self._received = False

  def start(self) -> None:
    """Replaces the handlers of both signals."""
    self._before = {
      number: signal.signal(number, self._receive) for number in (signal.SIGINT, signal.SIGTERM)
    }

  def after_round(self, finished: Round) -> bool:
    """Stops if a signal has arrived."""
    return self._received

  def end(self) -> None:
    """Restores the handlers."""
    for number, handler in self._before.items():
      signal.signal(number, handler)

  def _receive(self, number: int, frame: FrameType | None) -> None:
    if self._received:
      raise KeyboardInterrupt
    self._received = True
    print("\nStopping after this round; interrupt again to stop immediately.", file=sys.stderr)
