"""The Ray runtime: the head runs the server's part of a computation, actors on the cluster run its clients.

A task runs one block of clients and returns its partial aggregates. The head merges them in order, exactly as
in process, so results do not depend on which actor ran which block.
"""

import collections
import hashlib
import pickle
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import ray
import tensorflow_federated as tff
from absl import logging

from tff_momentum.runtime import errors
from tff_momentum.runtime.chunks import BlockResult, ChunkFunction
from tff_momentum.runtime.context import InProcessContext
from tff_momentum.runtime.executors import PassWork
from tff_momentum.runtime.ray import cluster, pool, wire
from tff_momentum.runtime.ray.actor import Failure
from tff_momentum.runtime.rewrite.options import CompileMode

# While an actor trains one block, the values of the next one are already on their way.
_BLOCKS_QUEUED = 2
# How many blocks per actor may be ahead of the merge; bounds the head's memory.
_LOOK_AHEAD = 8
# A block that ends this many actors one after the other, by its need for memory perhaps, ends the run.
_MAX_LOSSES = 3


class RayExecutor:
  """Runs clients in actors.

  When an actor is lost, its clients run again in the others, and a new actor starts where there is room.
  """

  takes_references = True

  def __init__(self, connection: cluster.Connection, actors: pool.ActorPool):
    self.connection = connection
    self.actors = actors
    self.shipped = wire.ShippedBytes()
    self._functions: weakref.WeakKeyDictionary[ChunkFunction, tuple[str, ray.ObjectRef]] = (
      weakref.WeakKeyDictionary()
    )

  def run(self, work: PassWork) -> Iterator[tuple[int, BlockResult]]:
    """See `ClientExecutor.run`."""
    if not work.blocks:
      return
    label = errors.current_label()
    key, function_reference = self._put_function(work.function)
    message = [wire.encode(tensor) for tensor in work.function.used_shared(work.shared)]
    self.shipped.shared += wire.count_bytes(message)
    fixed = (key, [function_reference], [ray.put(message)])
    cohort = _Cohort(work.blocks)
    for index in range(len(work.blocks)):
      while index not in cohort.done:
        self.actors.refresh()
        for block, actor in cohort.assign(index, self.actors.ready):
          own = [
            [wire.encode(leaf) for leaf in work.function.used_own(work.clients[i])]
            for i in work.blocks[block]
          ]
          self.shipped.clients += sum(map(wire.count_bytes, own))
          cohort.running[actor.run.remote(*fixed, own)] = (block, actor)
        awaited = [*cohort.running, *self.actors.starting]
        ready, _ = ray.wait(awaited, num_returns=1, timeout=self.actors.seconds_to_look)
        if ready and ready[0] in cohort.running:
          self._collect(ready[0], cohort, label)
      partial, kept = cohort.done.pop(index)
      decoded = [[wire.decode(item) for item in client] for client in kept]
      yield index, BlockResult([wire.decode(item) for item in partial], decoded)

  def close(self) -> None:
    """Ends the actors and the connection; the end of this process does the same."""
    self.actors.close()
    self.connection.close()

  def _put_function(self, function: ChunkFunction) -> tuple[str, ray.ObjectRef]:
    """Puts a function into Ray's object store, once; returns its hash and its reference."""
    if function not in self._functions:
      content = pickle.dumps((function.function.definitions(), function.layout))
      self.shipped.functions += len(content)
      self._functions[function] = (hashlib.sha256(content).hexdigest(), ray.put(content))
    return self._functions[function]

  def _collect(self, ready: ray.ObjectRef, cohort: "_Cohort", label: errors.ClientLabel) -> None:
    """Stores a finished block's result, or gives up an actor that was lost."""
    block, actor = cohort.running[ready]
    clients = cohort.blocks[block]
    try:
      result = ray.get(ready)
    except ray.exceptions.RayTaskError as error:
      raise RuntimeError(
        f"{label(clients[0])} or a client of its block failed before its TensorFlow code ran: {error}"
      ) from error
    except ray.exceptions.RayError as error:
      self._give_up(actor, error, cohort, label)
      return
    del cohort.running[ready]
    if isinstance(result, Failure):
      name = "a client" if result.client is None else label(clients[result.client])
      raise errors.name_client(result.error(), name)
    partial, kept = result
    self.shipped.results += wire.count_bytes(partial) + sum(map(wire.count_bytes, kept))
    cohort.done[block] = result

  def _give_up(
    self,
    actor: Any,
    error: ray.exceptions.RayError,
    cohort: "_Cohort",
    label: errors.ClientLabel,
  ) -> None:
    """Lets the clients of a lost actor run again elsewhere."""
    place = self.actors.lose(actor)
    again = cohort.take_back(actor)
    if cohort.losses[again[0]] == _MAX_LOSSES:
      first = label(cohort.blocks[again[0]][0])
      raise RuntimeError(
        f"Expected {first} to run in a Ray actor; found that {_MAX_LOSSES} actors ended while they "
        f"ran it, the last in {place} ({type(error).__name__}). It may need more memory than a node has: "
        "read the nodes' Ray logs."
      ) from error
    logging.warning(
      "Lost the Ray actor in %s (%s): %d clients of this round run again elsewhere; %d actors remain.",
      place, type(error).__name__, sum(len(cohort.blocks[block]) for block in again), len(self.actors.ready),
    )  # fmt: skip
    if not self.actors.wait_for_one():
      raise RuntimeError(
        f"Expected at least one Ray actor to run clients; found none left and no room for a new one: "
        f"{self.actors.lost} were lost, the last in {place} ({type(error).__name__}). Read the nodes' Ray "
        "logs, restart the cluster, and run the same command again to continue from the last checkpoint."
      ) from error


class _Cohort:
  """The blocks of a pass that wait, run, and are done."""

  def __init__(self, blocks: Sequence[range]):
    self.blocks = blocks
    self._waiting = collections.deque(range(len(blocks)))
    self.running: dict[ray.ObjectRef, tuple[int, Any]] = {}
    self.done: dict[int, tuple[list[Any], list[list[Any]]]] = {}
    self.losses = [0] * len(blocks)

  def assign(self, first: int, actors: dict[Any, str]) -> list[tuple[int, Any]]:
    """Assigns waiting blocks, in order, to the actors with the least work."""
    load = dict.fromkeys(actors, 0)
    for _, actor in self.running.values():
      load[actor] += 1
    assigned = []
    while self._waiting and self._waiting[0] < first + _LOOK_AHEAD * len(actors):
      actor = min(load, key=load.__getitem__)
      if load[actor] == _BLOCKS_QUEUED:
        break
      load[actor] += 1
      assigned.append((self._waiting.popleft(), actor))
    return assigned

  def take_back(self, actor: Any) -> list[int]:
    """Puts the blocks of a lost actor back at the front of the queue; returns them, the first one first."""
    lost = {ref: block for ref, (block, at) in self.running.items() if at == actor}
    for ref in lost:
      del self.running[ref]
    blocks = list(lost.values())
    self.losses[blocks[0]] += 1
    self._waiting.extendleft(reversed(blocks))
    return blocks


class RayContext(InProcessContext):
  """Runs any TFF computation: the server's part here, the clients' part on a Ray cluster."""

  def __init__(
    self,
    executor: RayExecutor,
    default_num_clients: int = 0,
    compile: CompileMode = "auto",
  ):
    super().__init__(lambda: executor, default_num_clients, compile)
    self.executor = executor
    self._one_at_a_time = threading.Lock()

  @property
  def last_round_bytes(self) -> wire.ShippedBytes:
    """The bytes that the last computation sent to and received from the actors."""
    return self.executor.shipped

  def invoke(self, comp: tff.framework.ConcreteComputation, arg: Any) -> Any:
    """Runs `comp` on `arg` and returns its result as Python values; concurrent calls wait for each other."""
    with self._one_at_a_time:
      self.executor.shipped = shipped = wire.ShippedBytes()
      result = super().invoke(comp, arg)
    if shipped.total:
      logging.info("Shipped %d bytes: %s.", shipped.total, shipped)
    return result


def create_ray_context(
  address: str | None = None,
  num_actors: int | None = None,
  gpus_per_actor: float | None = None,
  *,
  compile: CompileMode = "auto",
  default_num_clients: int = 0,
  startup_seconds: float = 300.0,
) -> RayContext:
  """Returns a context that runs clients on a Ray cluster, without making it TFF's default.

  Args:
    address: See `set_execution_context`, as for all arguments.
    num_actors: The number of clients that train at the same time.
    gpus_per_actor: The share of a GPU that an actor takes.
    compile: Which gradient functions XLA compiles.
    default_num_clients: The cohort size of computations without arguments placed at clients.
    startup_seconds: How long to wait for the actors.

  Raises:
    ConnectionError: There is no cluster at `address`.
    RuntimeError: This process is connected to another cluster.
    TimeoutError: The actors do not start in time.
    ValueError: The cluster has no room for so many actors.
  """
  connection = cluster.connect(address, num_actors)
  actors = pool.ActorPool(num_actors, gpus_per_actor, startup_seconds, connection.guard)
  return RayContext(RayExecutor(connection, actors), default_num_clients, compile)
