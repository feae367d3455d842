"""Reads the next round's data while the present round trains."""

import concurrent.futures
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Prefetcher(Generic[T]):
  """What `read(t)` gives for t = first, first + 1, ..., last; each is read once, in order, by one thread.

  `read` must depend on t alone. What it raises is raised by `get`.
  """

  def __init__(self, read: Callable[[int], T], first: int, last: int):
    self._read, self._last = read, last
    self._thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="reading-ahead")
    self._next = self._thread.submit(read, first)

  def get(self, t: int) -> T:
    """Waits for what belongs to t, and has the reading of t + 1 begun."""
    found = self._next.result()
    if t < self._last:
      self._next = self._thread.submit(self._read, t + 1)
    return found

  def close(self) -> None:
    """Ends the thread, once what it is reading is read."""
    self._thread.shutdown(cancel_futures=True)
