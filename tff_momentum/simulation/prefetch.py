"""Reads the next round's data while the current round trains."""

import concurrent.futures
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Prefetcher(Generic[T]):
  """Calls `read(t)` for t = first, ..., last on a background thread, one call ahead of `get`.

  Each t is read once and in order. `read` must depend on t alone.

  Example:
    >>> prefetcher = Prefetcher(lambda t: 10 * t, first=1, last=2)
    >>> prefetcher.get(1), prefetcher.get(2)
    (10, 20)
    >>> prefetcher.close()
  """

  def __init__(self, read: Callable[[int], T], first: int, last: int):
    """Starts reading `first`.

    Args:
      read: t -> the data of t.
      first: the first t.
      last: the last t; nothing is read after it.
    """
    self._read, self._last = read, last
    self._thread = concurrent.futures.ThreadPoolExecutor(1, thread_name_prefix="prefetch")
    self._next = self._thread.submit(read, first)

  def get(self, t: int) -> T:
    """Waits for the data of t and starts reading t + 1.

    Args:
      t: `first` in the first call, then one more in each call.

    Returns:
      What `read(t)` returned.

    Raises:
      Exception: what `read(t)` raised.
    """
    found = self._next.result()
    if t < self._last:
      self._next = self._thread.submit(self._read, t + 1)
    return found

  def close(self) -> None:
    """Ends the thread after the call to `read` that is under way."""
    self._thread.shutdown(cancel_futures=True)
