"""Runs the clients of a pass, several at a time, and yields the results of each block.

Runtimes differ only in their executor. The context passes it the work of a pass, and merges the partial
aggregates that it yields.
"""

import concurrent.futures
import dataclasses
import queue
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from typing import Protocol

import tensorflow as tf

from tff_momentum.runtime import errors, preparation
from tff_momentum.runtime.batch_rule import BatchRule
from tff_momentum.runtime.blocks import BlockSchedule
from tff_momentum.runtime.chunks import BlockResult, ChunkFunction, run_blocks
from tff_momentum.runtime.devices import HOST

# Bytes of partial aggregates that may wait for an earlier block.
_WAITING_BYTES = 2**28


@dataclasses.dataclass(frozen=True)
class PassWork:
  """The work of a pass over the clients.

  Attributes:
    function: The function of a chunk.
    shared: The values that all clients share.
    clients: For each client of the cohort, its own values.
    blocks: The positions of each block's clients.
    sizes: The expected work of each client, in any unit.
    partial_bytes: The size of a partial aggregate, as far as it is known.
  """

  function: ChunkFunction
  shared: Sequence[tf.Tensor]
  clients: Sequence[Sequence[tf.Tensor]]
  blocks: Sequence[range]
  sizes: Sequence[float]
  partial_bytes: int

  def schedule(self, slots: int, places: int = 1, smallest: float = 0.0) -> BlockSchedule:
    """Returns the schedule for an executor that runs `slots` chunks at a time; see `BlockSchedule`."""
    window = max(2 * slots, _WAITING_BYTES // max(self.partial_bytes, 1))
    work = [sum(self.sizes[i] for i in block) for block in self.blocks]
    return BlockSchedule(
      work, [len(block) for block in self.blocks], slots, window, places, smallest
    )


class ClientExecutor(Protocol):
  """Runs clients.

  Attributes:
    takes_references: Whether clients' values contain a `DataLeaf` instead of the tensor of their data.
  """

  takes_references: bool

  def prepare(self, function: ChunkFunction, rule: BatchRule | None) -> None:
    """May prepare a function that a pass will run soon; `rule` is that of batches read by index."""

  def run(self, work: PassWork) -> Iterator[tuple[int, BlockResult]]:
    """Yields the number and the result of every block, once, in any order.

    Results are in the host's memory. When the caller asks for the next result, it has merged the last one or
    keeps it until earlier blocks are there; executors start only blocks that `PassWork.schedule` allows, so
    that few results wait.

    Raises:
      tf.errors.OpError: A client fails; the message names it.
    """


class ThreadExecutor:
  """Runs clients on a pool of local devices, `slots` chunks at a time on each.

  A free slot takes the next chunk, whatever its device. If the devices are of different kinds, each block has
  a fixed device, because different kinds may give different bits.
  """

  takes_references = False

  def __init__(
    self, devices: Sequence[str], slots: int, slots_for: Callable[[int], int] | None = None
  ):
    """Makes the threads.

    Args:
      devices: The names of the devices.
      slots: The largest number of chunks that run on a device at a time.
      slots_for: (bytes of a partial aggregate, about those of the model) -> the number of chunks, where it
        depends on them.
    """
    self.devices = list(devices)
    self._slots, self._slots_for = slots, slots_for
    self._pool = concurrent.futures.ThreadPoolExecutor(
      slots * len(self.devices), thread_name_prefix="clients"
    )
    self._places = 1 if len(set(map(_kind, self.devices))) == 1 else len(self.devices)

  def prepare(self, function: ChunkFunction, rule: BatchRule | None) -> None:
    """See `ClientExecutor.prepare`; on one CPU, since other devices prepare functions for themselves."""
    if self.devices == [HOST]:
      preparation.prepare(function, rule, HOST)

  def run(self, work: PassWork) -> Iterator[tuple[int, BlockResult]]:
    """See `ClientExecutor.run`."""
    each = self._slots
    if self._slots_for is not None:
      each = min(each, self._slots_for(work.partial_bytes))
    slots = min(each * len(self.devices), len(work.blocks))
    chunks = _Chunks(work, slots, self._places)
    shared = work.function.used_shared(work.shared)
    copies = [[to_device(tensor, device) for tensor in shared] for device in self.devices[:slots]]
    for slot in range(slots):
      place = slot % len(self.devices)
      self._pool.submit(chunks.run_all, place, self.devices[place], copies[place])
    try:
      yield from chunks.results()
    finally:
      chunks.stop()


class _Chunks:
  """The chunks of a pass: threads take them and put their results into a queue."""

  def __init__(self, work: PassWork, threads: int, places: int):
    self._work = work
    self._schedule = work.schedule(threads, places)
    self._label = errors.current_label()
    self._changed = threading.Condition()
    self._threads = threads
    self._stopped = False
    self._done: queue.SimpleQueue[list[tuple[int, BlockResult]] | BaseException] = (
      queue.SimpleQueue()
    )

  def results(self) -> Iterator[tuple[int, BlockResult]]:
    """Yields the results of all blocks; raises the first error."""
    waiting = len(self._work.blocks)
    while waiting:
      found = self._done.get()
      if isinstance(found, BaseException):
        raise found
      for block, result in found:
        waiting -= 1
        yield block, result
        with self._changed:
          self._schedule.merged(block)
          self._changed.notify_all()

  def stop(self) -> None:
    """Waits until the chunks that run now have ended; no other one starts."""
    with self._changed:
      self._stopped = True
      self._changed.notify_all()
      self._changed.wait_for(lambda: not self._threads)

  def run_all(self, place: int, device: str, shared: list[tf.Tensor]) -> None:
    """Runs chunks until none is left; the work of one thread."""
    try:
      while chunk := self._take(place):
        begin = time.perf_counter()
        self._done.put([*zip(chunk, self._run(chunk, device, shared), strict=True)])
        self._schedule.measured(chunk, time.perf_counter() - begin)
    except BaseException as error:
      self._done.put(error)
    finally:
      with self._changed:
        self._threads -= 1
        self._changed.notify_all()

  def _take(self, place: int) -> list[int]:
    with self._changed:
      while not self._stopped and not self._schedule.is_empty:
        if chunk := self._schedule.take(place):
          self._changed.notify_all()  # it may have been the last one
          return chunk
        self._changed.wait()
      return []

  def _run(self, chunk: list[int], device: str, shared: list[tf.Tensor]) -> list[BlockResult]:
    work, function = self._work, self._work.function

    def call(inputs: list[tf.Tensor]) -> list[tf.Tensor]:
      outputs = function.function.call_used(inputs, device)
      return outputs if device == HOST else [_to_host(tensor) for tensor in outputs]

    def run(blocks: Sequence[Sequence[int]]) -> list[BlockResult]:
      own = [[function.used_own(work.clients[i]) for i in block] for block in blocks]
      return run_blocks(call, function.layout, shared, own)

    blocks = [work.blocks[i] for i in chunk]
    try:
      return run(blocks)
    except tf.errors.OpError as error:
      found, client = errors.failing_client(error, blocks, run)
      name = "a client" if client is None else self._label(client)
      raise errors.name_client(found, name) from error


def _kind(device: str) -> str:
  """Returns what devices that give the same bits have in common."""
  kind = device.rpartition("/device:")[2].partition(":")[0]
  for physical in tf.config.list_physical_devices(kind) if kind != "CPU" else ():
    if device.endswith(physical.name.removeprefix("/physical_device")):
      return f"{kind} {tf.config.experimental.get_device_details(physical).get('device_name')}"
  return kind


def to_device(tensor: tf.Tensor, device: str) -> tf.Tensor:
  """Copies a tensor to a device, unless it is there."""
  if tensor.dtype == tf.variant or tensor.device == device:
    return tensor
  with tf.device(device):
    return tf.identity(tensor)


def _to_host(tensor: tf.Tensor) -> tf.Tensor:
  return tensor if tensor.dtype == tf.variant else to_device(tensor, HOST)
