"""Runs the function of a chunk of clients, in this process or in an actor of a cluster."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tff_momentum.runtime import functions, lists

# The values that each client has of its own.
Clients = Sequence[Sequence[tf.Tensor]]


@dataclasses.dataclass(frozen=True)
class Layout:
  """How the function of a chunk takes its arguments and returns its results (see `client_pass`).

  Attributes:
    looped: Whether it loops over lists of clients, or runs one client.
    partial: The data types of a partial aggregate.
    kept: The data types of the computed values to keep of each client.
  """

  looped: bool
  partial: tuple[tf.DType, ...]
  kept: tuple[tf.DType, ...]


@dataclasses.dataclass(frozen=True, eq=False)
class ChunkFunction:
  """The function of a chunk, and how to call it.

  Attributes:
    function: The traced function.
    layout: How it takes arguments and returns results.
    num_shared: The number of values, at its front, that all clients share.
    unchanged: For each leaf that a pass keeps of a client, the place of the client's own value that it
      equals; None if the function computes it. Only computed leaves are among the function's results: the
      others, such as the clients' data, need not come back from the device.
  """

  function: functions.FlatFunction
  layout: Layout
  num_shared: int
  unchanged: tuple[int | None, ...]

  def kept(self, own: Sequence[tf.Tensor], computed: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Returns all leaves to keep of a client, from its own values and the ones that the function computed."""
    rest = iter(computed)
    return [next(rest) if place is None else own[place] for place in self.unchanged]

  def used_shared(self, shared: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Returns the shared values that the function reads."""
    return [shared[i] for i in self.function.used if i < self.num_shared]

  def used_own(self, own: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Returns the values of a client that the function reads."""
    first = self.num_shared + self.layout.looped  # the ends of the blocks come between
    return [own[i - first] for i in self.function.used if i >= first]


class BlockResult(NamedTuple):
  """What a block returns.

  Attributes:
    partial: The leaves of the partial aggregates.
    kept: For each of its clients, the leaves of the computed values to keep.
  """

  partial: list[tf.Tensor]
  kept: list[list[tf.Tensor]]


def run_blocks(
  call: Callable[[list[tf.Tensor]], list[tf.Tensor]],
  layout: Layout,
  shared: Sequence[tf.Tensor],
  blocks: Sequence[Clients],
) -> list[BlockResult]:
  """Runs the clients of some blocks on the device that `call` chooses.

  Args:
    call: Calls the traced function with the arguments that it reads.
    layout: How the function takes its arguments.
    shared: The shared values that it reads.
    blocks: For each block, for each client, the client's own values that it reads.
  """
  if not layout.looped:
    return [_run_client(call, layout, [*shared, *own]) for block in blocks for own in block]
  clients = [own for block in blocks for own in block]
  ends = tf.constant(np.cumsum([len(block) for block in blocks], dtype=np.int32))
  outputs = call([*shared, ends, *lists.pack(clients)])
  split = len(layout.partial)
  partials = lists.unpack(outputs[:split], len(blocks), layout.partial)
  kept = iter(lists.unpack(outputs[split:], len(clients), layout.kept))
  return [
    BlockResult(partial, [next(kept) for _ in block])
    for partial, block in zip(partials, blocks, strict=True)
  ]


def _run_client(
  call: Callable[[list[tf.Tensor]], list[tf.Tensor]], layout: Layout, inputs: list[tf.Tensor]
) -> BlockResult:
  outputs = call(inputs)
  split = len(layout.partial)
  return BlockResult(outputs[:split], [outputs[split:]])
