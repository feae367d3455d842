"""Reading ahead: in order, once each, while the caller is busy, and with the reader's own errors."""

import threading

import pytest

from tff_momentum.simulation.prefetch import Prefetcher


def test_the_next_one_is_read_while_the_caller_works():
  begun = {t: threading.Event() for t in range(4)}

  def read(t):
    begun[t].set()
    return 10 * t

  ahead = Prefetcher(read, 1, 3)
  assert ahead.get(1) == 10
  assert begun[2].wait(10)  # nobody has asked for it yet
  assert not begun[3].is_set()
  assert [ahead.get(2), ahead.get(3)] == [20, 30]
  assert not begun[0].is_set()
  ahead.close()


def test_an_error_belongs_to_the_round_that_it_is_about():
  def read(t):
    if t == 1:
      raise ValueError("client 7 cannot be read")
    return t

  ahead = Prefetcher(read, 0, 5)
  assert ahead.get(0) == 0
  with pytest.raises(ValueError, match="client 7"):
    ahead.get(1)
  ahead.close()


def test_closing_ends_the_thread():
  ahead = Prefetcher(lambda t: t, 0, 9)
  ahead.get(0)
  ahead.close()
  assert not any("prefetch" in thread.name for thread in threading.enumerate())
