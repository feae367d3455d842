"""Which actor runs which blocks, with simulated actors: the clients of real ones take their time."""

import heapq

import numpy as np
import pytest

pytest.importorskip("ray")

from tff_momentum.runtime import blocks
from tff_momentum.runtime.executors import PassWork
from tff_momentum.runtime.ray.queues import Queues


def _work(sizes) -> PassWork:
  return PassWork(None, [], [[]] * len(sizes), blocks.cut(len(sizes)), list(sizes), partial_bytes=1)


def _simulate(times, sizes, actors: int, seconds: float | None = None) -> float:
  """Returns the time of a pass in which clients take `times`, and the head expects `sizes`."""
  work = _work(sizes)
  queues, clock, numbers = Queues(work, actors, seconds), 0.0, iter(range(10**6))
  waiting: dict[int, list[int]] = {actor: [] for actor in range(actors)}
  ends: list[tuple[float, int]] = []

  def begin(task: int) -> None:
    _, chunk = queues.running[task]
    heapq.heappush(ends, (clock + sum(times[i] for b in chunk for i in work.blocks[b]), task))

  ran: list[int] = []
  while not queues.is_done:
    for actor, chunk in queues.assign(range(actors)):
      task = next(numbers)
      queues.sent(actor, chunk, task)
      waiting[actor].append(task)
      if len(waiting[actor]) == 1:
        begin(task)
    clock, task = heapq.heappop(ends)
    actor, chunk = queues.running[task]
    waiting[actor].pop(0)
    queues.finished(task)
    for block in chunk:
      queues.merged(block)
    ran += chunk
    if waiting[actor]:
      begin(waiting[actor][0])
  assert sorted(ran) == list(range(len(work.blocks)))
  return clock


@pytest.mark.parametrize("clients", [64, 1000])
@pytest.mark.parametrize("actors", [2, 16, 64])
def test_a_round_takes_little_longer_than_the_best_possible(actors, clients):
  ratios = []
  for trial in range(10):
    times = np.random.default_rng([1, trial]).lognormal(0.0, 1.0, clients)
    longest = max(sum(times[i] for i in block) for block in blocks.cut(clients))
    best = max(sum(times) / actors, longest)  # a block runs on one device
    ratios.append(_simulate(times, times, actors) / best)
  assert np.mean(ratios) < 1.1
  assert max(ratios) < 1.2


def test_tiny_clients_share_tasks_and_large_ones_do_not():
  def tasks(seconds):
    queues, count = Queues(_work([1.0] * 640), 2, seconds), 0
    while not queues.is_done:
      for actor, chunk in queues.assign(["a", "b"]):
        queues.sent(actor, chunk, count)
        count += 1
      task, (_, chunk) = next(iter(queues.running.items()))
      queues.finished(task)
      for block in chunk:
        queues.merged(block)
    return count

  assert tasks(seconds=1e-4) < 9 < 12 < tasks(seconds=1.0)


def test_the_blocks_of_a_lost_actor_run_again_one_by_one():
  queues = Queues(_work([1.0] * 64), 2)
  for task, (actor, chunk) in enumerate(queues.assign(["a", "b"])):
    queues.sent(actor, chunk, task)
  running, queued = (chunk for actor, chunk in queues.running.values() if actor == "a")
  assert len(running) > 1
  assert sorted(queues.take_back("a")) == sorted([*running, *queued])
  assert queues.most_lost(1) in running  # the queued chunk is not to blame
  assert queues.most_lost(2) is None
  again = queues.assign(["b", "c"])
  assert [chunk for _, chunk in again] == [[running[0]], [running[1]]]
