"""Counts the interrupts of a user or a batch system."""

import time

# GNU `timeout` sends SIGTERM to its child and then to the whole group: signals this close together are one.
SECONDS_TOGETHER = 1.0


class Interrupts:
  """The number of times that the user asked to stop."""

  def __init__(self) -> None:
    self.count = 0
    self._last = -SECONDS_TOGETHER

  def add(self) -> bool:
    """Counts a signal; returns False if it belongs to the one just before."""
    now = time.monotonic()
    together = now - self._last < SECONDS_TOGETHER
    self._last = now
    self.count += not together
    return not together
