"""Cuts a cohort into blocks of clients and decides which blocks run next.

A block's clients run on one device, one after the other, and their results are accumulated there. The head
merges the blocks' partial aggregates in order. The blocks depend only on the size of the cohort, so results
do not depend on the number of devices, threads or actors, nor on which of them ran a block.

A *chunk* is a set of blocks that one call runs. Chunks and their order only decide where and when a block
runs.
"""

import threading
from collections.abc import Sequence

MAX_BLOCKS = 64
# More clients in a chunk would not reduce the cost of a call any further.
_MAX_CLIENTS_IN_CHUNK = 256
# A call takes up to 0.7 ms for itself, so a chunk should take longer than that.
_MIN_CHUNK_SECONDS = 0.007


def cut(num_clients: int) -> list[range]:
  """Returns the positions of each block's clients; the sizes of blocks differ by at most one.

  >>> cut(3)
  [range(0, 1), range(1, 2), range(2, 3)]
  >>> len(cut(1000)), cut(1000)[:2]
  (64, [range(0, 15), range(15, 31)])
  """
  count = min(num_clients, MAX_BLOCKS)
  bounds = [i * num_clients // count for i in range(count)] + [num_clients]
  return [range(bounds[i], bounds[i + 1]) for i in range(count)]


class BlockSchedule:
  """The blocks of a pass that wait, and the rule that picks the next ones for a free slot.

  The longest blocks run first. A chunk takes a share of the work that is left, so chunks get smaller towards
  the end of a pass and all slots finish at about the same time, but not so small that calls take most of it.
  """

  def __init__(
    self,
    work: Sequence[float],
    clients: Sequence[int],
    slots: int,
    window: int,
    places: int = 1,
    smallest: float = 0.0,
  ):
    """Makes a schedule.

    Args:
      work: The expected work of each block, in any unit.
      clients: The number of clients of each block.
      slots: How many chunks run at the same time.
      window: A block waits until all blocks that are this far ahead of it are merged, which bounds the memory
        for partial aggregates.
      places: If above 1, place p runs only the blocks p, p + places, ...: for devices of different kinds,
        which may give different bits.
      smallest: How much work a chunk should have at least, where calls are expensive; at most a third of the
        work of a slot.
    """
    smallest = min(smallest, sum(work) / (3 * max(slots, 1)))
    self._work = work
    self._clients = clients
    self._slots = slots
    self._window = window
    self._places = places
    self._smallest = smallest
    self._waiting = sorted(range(len(work)), key=lambda block: (-work[block], block))
    self._merged: set[int] = set()
    self._first = 0  # the first block that is not merged yet
    self._least = 0.0  # the work of a chunk that takes just long enough
    self._lock = threading.Lock()

  @property
  def is_empty(self) -> bool:
    """Whether no block waits."""
    return not self._waiting

  def take(self, place: int = 0) -> list[int]:
    """Returns the blocks of the next chunk; none if no block may start now."""
    with self._lock:
      free = [block for block in self._waiting if self._may_start(block, place)]
      left = sum(self._work[block] for block in self._waiting) / self._slots
      share = max(left / 2, min(left, self._least), self._smallest)
      chunk: list[int] = []
      for block in free:
        together = [*chunk, block]
        rest = (
          self._work[block] / 2 if self._smallest else 0.0
        )  # rounds to the nearest number of blocks
        too_long = sum(self._work[b] for b in together) > share + rest
        if chunk and (too_long or sum(self._clients[b] for b in together) > _MAX_CLIENTS_IN_CHUNK):
          break
        chunk = together
      self._waiting = [block for block in self._waiting if block not in chunk]
      return sorted(chunk)

  def measured(self, chunk: Sequence[int], seconds: float) -> None:
    """Notes how long a chunk took, so that the next ones are not too short."""
    work = sum(self._work[block] for block in chunk)
    self._least = work * _MIN_CHUNK_SECONDS / max(seconds, 1e-6)

  def merged(self, block: int) -> None:
    """Notes that the head has a block's result, so blocks further ahead may start."""
    with self._lock:
      self._merged.add(block)
      while self._first in self._merged:
        self._merged.remove(self._first)
        self._first += 1

  def put_back(self, chunk: Sequence[int]) -> None:
    """Lets the blocks of a lost chunk run again, before all others."""
    with self._lock:
      self._waiting = [*chunk, *self._waiting]

  def _may_start(self, block: int, place: int) -> bool:
    in_window = block < self._first + self._window
    return in_window and (self._places == 1 or block % self._places == place)
