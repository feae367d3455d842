"""What clients remember between their rounds, kept by client id."""

from collections.abc import Callable, Sequence
from typing import Any


class MemoryStore:
  """Keeps the states in memory."""

  def __init__(self, init: Callable[[str], Any]):
    self._init = init
    self._states: dict[str, Any] = {}

  def load(self, ids: Sequence[str]) -> list[Any]:
    """The states of these clients; a client never seen before starts from `init`."""
    return [self._states[i] if i in self._states else self._init(i) for i in ids]

  def save(self, ids: Sequence[str], states: Sequence[Any], round_number: int) -> None:
    """Remembers what these clients keep after a round."""
    del round_number
    self._states.update(zip(ids, states, strict=True))
