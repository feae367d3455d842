"""Runs one function for each client of a cohort, several at a time, and yields results in cohort order.

Runtimes differ only in their executor: the context passes it a function, the shared values and the clients'
own values, and reads the results in order.
"""

import collections
import concurrent.futures
from collections.abc import Iterator, Sequence
from typing import Protocol

import tensorflow as tf

from tff_momentum.runtime import errors, functions
from tff_momentum.runtime.devices import HOST


class ClientExecutor(Protocol):
  """Maps a function over clients.

  Attributes:
    takes_references: Whether clients' values contain a `DataLeaf` instead of the tensor of their data.
  """

  takes_references: bool

  def run(
    self,
    function: functions.FlatFunction,
    shared: Sequence[tf.Tensor],
    clients: Sequence[Sequence[tf.Tensor]],
  ) -> Iterator[list[tf.Tensor]]:
    """Yields `function(shared + clients[i])` for i = 0, 1, ..., in this order."""


class ThreadExecutor:
  """Runs clients on a pool of local devices, `slots` clients at a time on each.

  Client i runs on device i mod n, so the device depends only on the cohort, and the bits of a run do not
  depend on timing, even if devices differ.
  """

  takes_references = False

  def __init__(self, devices: Sequence[str], slots: int):
    self.devices = list(devices)
    self._slots = slots
    self._pools = [
      concurrent.futures.ThreadPoolExecutor(slots, thread_name_prefix=f"clients-{name[-5:]}")
      for name in self.devices
    ]

  def run(
    self,
    function: functions.FlatFunction,
    shared: Sequence[tf.Tensor],
    clients: Sequence[Sequence[tf.Tensor]],
  ) -> Iterator[list[tf.Tensor]]:
    """See `ClientExecutor.run`."""
    label = errors.current_label()
    used_shared = [i for i in function.used if i < len(shared)]
    used_own = [i - len(shared) for i in function.used if i >= len(shared)]
    copies = [_copies(shared, used_shared, device) for device in self.devices]
    on_cpu = len(self.devices) == 1 and "CPU" in self.devices[0]

    def run_client(index: int) -> list[tf.Tensor]:
      which = index % len(self.devices)
      own = clients[index]
      inputs = copies[which] + [own[i] for i in used_own]
      try:
        outputs = function.call_used(inputs, self.devices[which])
        return outputs if on_cpu else [_to_host(tensor) for tensor in outputs]
      except tf.errors.OpError as error:
        raise errors.name_client(error, label(index)) from error

    pending: collections.deque[concurrent.futures.Future] = collections.deque()
    window = 2 * self._slots * len(self.devices)
    waiting = iter(range(len(clients)))
    try:
      for _ in range(len(clients)):
        while len(pending) < window and (index := next(waiting, None)) is not None:
          pool = self._pools[index % len(self._pools)]
          pending.append(pool.submit(run_client, index))
        yield pending.popleft().result()
    finally:
      for future in pending:
        future.cancel()
      concurrent.futures.wait(pending)


def _copies(shared: Sequence[tf.Tensor], used: list[int], device: str) -> list[tf.Tensor]:
  """Copies shared values to a device, once for all its clients."""
  return [_to_device(shared[i], device) for i in used]


def _to_device(tensor: tf.Tensor, device: str) -> tf.Tensor:
  if tensor.dtype == tf.variant or tensor.device == device:
    return tensor
  with tf.device(device):
    return tf.identity(tensor)


def _to_host(tensor: tf.Tensor) -> tf.Tensor:
  return tensor if tensor.dtype == tf.variant else _to_device(tensor, HOST)
