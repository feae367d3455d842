"""Ends a run after the current round on Ctrl-C or on a batch system's SIGTERM."""

import os
import signal
import sys
from types import FrameType

from experiments.cli.interrupts import Interrupts
from tff_momentum.simulation.loop import Round
from tff_momentum.simulation.trainer import Hook

INTERRUPTED = 130  # the exit code of a run that was stopped before its last round


class StopOnSignal(Hook):
  """Stops training after the round in which SIGINT or SIGTERM arrives.

  A second interrupt changes nothing, so that an impatient user does not lose the round; a third one ends the
  process immediately. That is as safe as a power failure: the last checkpoint is on the disk.
  """

  def __init__(self) -> None:
    self._interrupts = Interrupts()

  def start(self) -> None:
    """Replaces the handlers of both signals."""
    self._before = {
      number: signal.signal(number, self._receive) for number in (signal.SIGINT, signal.SIGTERM)
    }

  def after_round(self, finished: Round) -> bool:
    """Stops if a signal has arrived."""
    return self._interrupts.count > 0

  def end(self) -> None:
    """Restores the handlers."""
    for number, handler in self._before.items():
      signal.signal(number, handler)

  def _receive(self, number: int, frame: FrameType | None) -> None:
    if not self._interrupts.add():
      return
    if self._interrupts.count == 1:
      said = "Stopping after this round, with a checkpoint."
    elif self._interrupts.count == 2:
      said = "Still in this round; a third interrupt stops immediately and loses the rounds since the last "
      said += "checkpoint."
    else:
      said = "Stopped immediately; run the same command to resume from the last checkpoint."
    # Not print: a handler may interrupt a print to the same buffer.
    os.write(sys.stderr.fileno(), f"\n{said}\n".encode())
    if self._interrupts.count >= 3:
      os._exit(INTERRUPTED)
