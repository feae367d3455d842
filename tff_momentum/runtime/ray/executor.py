"""The Ray runtime: the head runs the server's part of a computation, actors on the cluster run its clients.

A task runs one or more blocks of clients and returns their partial aggregates. The head merges them in order,
exactly as in process, so results do not depend on which actor ran which block.
"""

import hashlib
import threading
import weakref
from collections.abc import Iterator, Sequence
from typing import Any

import ray
import tensorflow_federated as tff
from absl import logging

from tff_momentum.runtime import errors
from tff_momentum.runtime.batch_rule import BatchRule
from tff_momentum.runtime.chunks import BlockResult, ChunkFunction
from tff_momentum.runtime.client_batches import ClientBatches
from tff_momentum.runtime.context import InProcessContext
from tff_momentum.runtime.executors import PassWork
from tff_momentum.runtime.gpu_decisions import Convolutions, Recurrent
from tff_momentum.runtime.ray import client_data, cluster, pool, wire
from tff_momentum.runtime.ray.actor import Failure
from tff_momentum.runtime.ray.queues import Queues
from tff_momentum.runtime.references import DataLeaf
from tff_momentum.runtime.rewrite.options import CompileMode, RewriteOptions

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
    self._examples = client_data.SentExamples()
    self._paces: weakref.WeakKeyDictionary[ChunkFunction, _Pace] = weakref.WeakKeyDictionary()
    self._functions: weakref.WeakKeyDictionary[ChunkFunction, tuple[str, ray.ObjectRef]] = (
      weakref.WeakKeyDictionary()
    )

  def prepare(self, function: ChunkFunction, rule: BatchRule | None) -> None:
    """Does nothing: actors prepare functions when they get them."""

  def run(self, work: PassWork) -> Iterator[tuple[int, BlockResult]]:
    """See `ClientExecutor.run`."""
    if not work.blocks:
      return
    label = errors.current_label()
    key, function = self._put_function(work.function)
    shared = wire.pack([wire.encode(leaf) for leaf in work.function.used_shared(work.shared)])
    self.shipped.shared += shared.size
    fixed = (key, [function], [ray.put(shared)])
    pace = self._paces.setdefault(work.function, _Pace())
    queues = Queues(work, len(self.actors.ready), pace.seconds)
    while not queues.is_done:
      self.actors.refresh()
      for actor, chunk in queues.assign(self.actors.ready):
        message, examples = self._message(work, chunk, actor)
        queues.sent(actor, chunk, actor.run.remote(*fixed, message, examples))
      awaited = [*queues.running, *self.actors.starting]
      ready, _ = ray.wait(awaited, num_returns=1, timeout=self.actors.seconds_to_look)
      if ready and ready[0] in queues.running:
        for block, result in self._collect(ready[0], work, queues, label):
          yield block, result
          queues.merged(block)

  def close(self) -> None:
    """Ends the actors and the connection; the end of this process does the same."""
    self.actors.close()
    self.connection.close()

  def _put_function(self, function: ChunkFunction) -> tuple[str, ray.ObjectRef]:
    """Puts a function into Ray's object store, once; returns its hash and its reference."""
    if function not in self._functions:
      message = wire.pack((function.function.definitions(), function.layout))
      self.shipped.functions += message.size
      key = hashlib.sha256(message.content).hexdigest()
      self._functions[function] = (key, ray.put(message))
    return self._functions[function]

  def _message(
    self, work: PassWork, chunk: list[int], actor: Any
  ) -> tuple[wire.PackedValue, list[ray.ObjectRef]]:
    """Returns what an actor needs to run the blocks of a chunk, and the references to new examples."""
    clients = [work.clients[i] for block in chunk for i in work.blocks[block]]
    own = [work.function.used_own(client) for client in clients]
    columns = [self._encode(column) for column in zip(*own, strict=True)]
    stored = [column for column in columns if isinstance(column, client_data.StoredBatches)]
    news, references = self._examples.news(actor, stored)
    message = wire.pack(([len(work.blocks[block]) for block in chunk], news, columns))
    self.shipped.clients += message.size
    return message, references

  def _encode(self, leaves: Sequence[Any]) -> Any:
    """Encodes the same leaf of all clients of a chunk."""
    by_index = isinstance(leaves[0], DataLeaf) and leaves[0].signature is not None
    if by_index and any(isinstance(leaf.data, ClientBatches) for leaf in leaves):
      stored = self._examples.store([leaf.batches() for leaf in leaves])
      self.shipped.examples += self._examples.take_put_bytes()
      return stored
    return wire.encode_column(leaves)

  def _collect(
    self, ready: ray.ObjectRef, work: PassWork, queues: Queues, label: errors.ClientLabel
  ) -> list[tuple[int, BlockResult]]:
    """Returns the results of a finished chunk; none if its actor was lost."""
    actor, chunk = queues.running[ready]
    clients = [i for block in chunk for i in work.blocks[block]]
    try:
      answer = ray.get(ready)
    except ray.exceptions.RayTaskError as error:
      raise RuntimeError(f"The Ray actor of {_names(clients, label)} failed: {error}") from error
    except ray.exceptions.RayError as error:
      self._give_up(actor, error, work, queues, label)
      return []
    chunk_work = queues.finished(ready)
    if isinstance(answer, Failure):
      raise answer.error("a client" if answer.client is None else label(clients[answer.client]))
    self.shipped.results += answer.size
    seconds, partials, kept = wire.unpack(answer)
    self._paces[work.function].add(chunk_work, seconds)
    rows = iter(wire.decode_rows(kept, len(clients)))
    merged = wire.decode_rows(partials, len(chunk), share=True)
    return [
      (block, BlockResult(partial, [next(rows) for _ in work.blocks[block]]))
      for block, partial in zip(chunk, merged, strict=True)
    ]

  def _give_up(
    self,
    actor: Any,
    error: ray.exceptions.RayError,
    work: PassWork,
    queues: Queues,
    label: errors.ClientLabel,
  ) -> None:
    """Lets the blocks of a lost actor run again elsewhere."""
    place, cause = self.actors.lose(actor), type(error).__name__
    self._examples.lose(actor)
    lost = queues.take_back(actor)
    clients = [i for block in lost for i in work.blocks[block]]
    if (block := queues.most_lost(_MAX_LOSSES)) is not None:
      raise RuntimeError(
        f"Expected {_names(work.blocks[block], label)} to run in a Ray actor; "
        f"found that {_MAX_LOSSES} actors ended while they ran them, the last in {place} ({cause}). They may "
        "need more memory than a node has: read the nodes' Ray logs."
      ) from error
    logging.warning(
      "Lost the Ray actor in %s (%s): %d clients of this round run again elsewhere; %d actors remain.",
      place, cause, len(clients), len(self.actors.ready),
    )  # fmt: skip
    if not self.actors.wait_for_one():
      raise RuntimeError(
        "Expected at least one Ray actor to run clients; found none left and no room for a new one: "
        f"{self.actors.lost} were lost, the last in {place} ({cause}). Read the nodes' Ray logs, restart the "
        "cluster, and run the same command again to continue from the last checkpoint."
      ) from error


class _Pace:
  """How long an actor takes for a unit of work of a function; the last chunks count most."""

  def __init__(self) -> None:
    self._work = self._total = 0.0

  def add(self, work: float, seconds: float) -> None:
    """Takes a measurement."""
    self._work, self._total = 0.9 * self._work + work, 0.9 * self._total + seconds

  @property
  def seconds(self) -> float | None:
    """The time for one unit of work; None if nothing was measured yet."""
    return self._total / self._work if self._work else None


def _names(clients: Sequence[int], label: errors.ClientLabel) -> str:
  """Returns the names of clients with consecutive positions."""
  first, last = label(clients[0]), label(clients[-1])
  return first if len(clients) == 1 else f"the clients from {first} to {last}"


class RayContext(InProcessContext):
  """Runs any TFF computation: the server's part here, the clients' part on a Ray cluster."""

  def __init__(
    self,
    executor: RayExecutor,
    default_num_clients: int = 0,
    options: RewriteOptions = RewriteOptions(),  # noqa: B008 (frozen)
  ):
    super().__init__(lambda: executor, default_num_clients, options)
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
  gpu_convolutions: Convolutions = "cudnn",
  gpu_recurrent: Recurrent = "cudnn",
  as_gpu: bool = False,
) -> RayContext:
  """Returns a context that runs clients on a Ray cluster, without making it TFF's default.

  Args:
    address: See `set_execution_context`, as for all arguments.
    num_actors: The number of clients that train at the same time.
    gpus_per_actor: The share of a GPU that an actor takes.
    compile: Which gradient functions XLA compiles.
    default_num_clients: The cohort size of computations without arguments placed at clients.
    startup_seconds: How long to wait for the actors.
    gpu_convolutions: Who runs convolutions on GPUs.
    gpu_recurrent: Who runs recurrent layers on GPUs.
    as_gpu: Makes the graphs for GPUs whatever the actors' devices are, for tests.

  Raises:
    ConnectionError: There is no cluster at `address`.
    RuntimeError: This process is connected to another cluster.
    TimeoutError: The actors do not start in time.
    ValueError: The cluster has no room for so many actors.
  """
  connection = cluster.connect(address, num_actors)
  actors = pool.ActorPool(num_actors, gpus_per_actor, startup_seconds, connection.guard, as_gpu)
  if not actors.can_compile:
    compile = "off"
  options = RewriteOptions(None, compile, actors.device_kind, gpu_convolutions, gpu_recurrent)
  return RayContext(RayExecutor(connection, actors), default_num_clients, options)
