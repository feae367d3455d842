"""Prefetching: items are read once, in order, while the caller is busy; errors are passed on."""

import threading

import pytest

from tff_momentum.simulation.prefetch import Prefetcher


def test_the_next_item_is_read_while_the_caller_works():
  begun = {t: threading.Event() for t in range(4)}

  def read(t):
    begun[t].set()
    return 10 * t

  prefetcher = Prefetcher(read, 1, 3)
  assert prefetcher.get(1) == 10
  assert begun[2].wait(10)  # before anyone asks for it
  assert not begun[3].is_set()
  assert [prefetcher.get(2), prefetcher.get(3)] == [20, 30]
  assert not begun[0].is_set()
  prefetcher.close()


def test_an_error_is_raised_for_the_item_that_caused_it():
  def read(t):
    if t == 1:
      raise ValueError("client 7 cannot be read")
    return t

  prefetcher = Prefetcher(read, 0, 5)
  assert prefetcher.get(0) == 0
  with pytest.raises(ValueError, match="client 7"):
    prefetcher.get(1)
  prefetcher.close()


def test_closing_ends_the_thread():
  prefetcher = Prefetcher(lambda t: t, 0, 9)
  prefetcher.get(0)
  prefetcher.close()
  assert not any("prefetch" in thread.name for thread in threading.enumerate())
