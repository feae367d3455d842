"""The queues of a pass: which actor runs which blocks, and which blocks still wait."""

import collections
from collections.abc import Iterable
from typing import Any

import ray

from tff_momentum.runtime.executors import PassWork

# While an actor runs one chunk, the values of the next one are already on their way.
_CHUNKS_QUEUED = 2
# A task costs a few milliseconds; tiny clients run in tasks of at least this length.
_SMALLEST_SECONDS = 0.05
# An actor does not wait for its next task if the one that it runs is shorter than this.
_SHORT_SECONDS = 0.2


class Queues:
  """The chunks that run or wait at each actor, and the blocks that wait at the head.

  The next chunk, with the longest of the waiting blocks, goes to the actor with the least work. This decides
  only where and when a block runs.

  Attributes:
    running: The actor and the blocks of each chunk that was sent, by the reference of its result. The chunks
      of an actor are in the order in which it runs them.
  """

  def __init__(self, work: PassWork, num_actors: int, seconds: float | None = None):
    """Makes the queues of a pass.

    Args:
      work: The work of the pass.
      num_actors: The number of actors at its beginning.
      seconds: How long an actor takes for one unit of work; None if this is unknown.
    """
    smallest = _SMALLEST_SECONDS / seconds if seconds else 0.0
    self._schedule = work.schedule(slots=num_actors, smallest=smallest)
    self._short = _SHORT_SECONDS / seconds if seconds else 0.0
    self._work = [sum(work.sizes[i] for i in block) for block in work.blocks]
    self._waiting = self._unmerged = len(work.blocks)
    self._lost: collections.deque[int] = collections.deque()
    self._losses: collections.Counter[int] = collections.Counter()
    self.running: dict[ray.ObjectRef, tuple[Any, list[int]]] = {}

  @property
  def is_done(self) -> bool:
    """Whether the results of all blocks are there."""
    return not self._unmerged

  def assign(self, actors: Iterable[Any]) -> list[tuple[Any, list[int]]]:
    """Returns the chunks to send now, each with its actor.

    A second chunk waits at an actor while there are more blocks than actors. The last blocks, unless they are
    short, go to the actors that are free first.
    """
    load = dict.fromkeys(actors, (0.0, 0))
    for actor, chunk in self.running.values():
      load[actor] = self._with(load[actor], chunk)
    assigned = []
    while load and self._waiting:
      actor = min(load, key=load.__getitem__)
      ahead = self._waiting > len(load) or load[actor][0] < self._short
      if load[actor][1] >= (_CHUNKS_QUEUED if ahead else 1):
        break
      chunk = [self._lost.popleft()] if self._lost else self._schedule.take()
      if not chunk:
        break
      self._waiting -= len(chunk)
      load[actor] = self._with(load[actor], chunk)
      assigned.append((actor, chunk))
    return assigned

  def sent(self, actor: Any, chunk: list[int], result: ray.ObjectRef) -> None:
    """Notes that an actor has a chunk."""
    self.running[result] = (actor, chunk)

  def finished(self, result: ray.ObjectRef) -> float:
    """Notes that the result of a chunk is there; returns the chunk's work."""
    _, chunk = self.running.pop(result)
    return sum(self._work[block] for block in chunk)

  def merged(self, block: int) -> None:
    """Notes that the head has merged a block, or keeps its result until earlier blocks are there."""
    self._unmerged -= 1
    self._schedule.merged(block)

  def take_back(self, actor: Any) -> list[int]:
    """Lets the blocks of a lost actor run again, before all others and one by one; returns them."""
    chunks = {result: chunk for result, (at, chunk) in self.running.items() if at == actor}
    self._losses.update(next(iter(chunks.values())))  # the others waited when the actor was lost
    for result in chunks:
      del self.running[result]
    lost = [block for chunk in chunks.values() for block in chunk]
    self._lost.extend(lost)
    self._waiting += len(lost)
    return lost

  def most_lost(self, times: int) -> int | None:
    """Returns a block that was lost with so many actors that ran it; None if there is none."""
    return next((block for block, count in self._losses.items() if count >= times), None)

  def _with(self, load: tuple[float, int], chunk: list[int]) -> tuple[float, int]:
    return load[0] + sum(self._work[block] for block in chunk), load[1] + 1
