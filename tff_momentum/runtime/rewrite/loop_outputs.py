"""Collects what the turns of a loop compute, to be worked on for all turns together after the loop."""

from collections.abc import Callable

import tensorflow as tf

from tff_momentum.runtime.rewrite.function_defs import Function, Loop


class Turns:
  """All turns' values of a body's matrices, stacked after the loop."""

  def __init__(self, loop: Loop, op: str, length: str, write: Callable[[str, str, tf.DType], str]):
    self._loop, self._op, self._length, self._write = loop, op, length, write
    self._stacked: dict[str, str] = {}

  def stacked(self, tensor: str, dtype: tf.DType) -> str:
    """The values of a matrix."""
    source = self._loop.body.source(tensor)
    if source not in self._stacked:
      parts = self.parts(source, dtype)
      self._stacked[source] = join(self._loop.outer, parts, -1, dtype)
    return self._stacked[source]

  def parts(self, tensor: str, dtype: tf.DType) -> list[str]:
    """The values of the matrices side by side that a matrix is put together from, or of itself.

    Only these are collected: a concatenation fused with what it puts together is slow with XLA, which
    gathers its elements one by one.
    """
    body = self._loop.body
    concat = body.maker(tensor, "ConcatV2")
    if concat is None or body.constant(concat.input[-1]) not in (1, -1):
      return [self._collected(body.source(tensor), dtype)]
    return [part for name in concat.input[:-1] for part in self.parts(name, dtype)]

  def _collected(self, tensor: str, dtype: tf.DType) -> str:
    if tensor not in self._stacked:
      outer, inputs = self._loop.outer, [unknown(self._loop.outer), self._length]
      place, items = self._loop.add(outer.add(self._op, inputs, "handle", **list_of(dtype)))
      self._loop.body.set_result(place, self._write(items, tensor, dtype))
      inputs = [self._loop.output(place), unknown(outer)]
      self._stacked[tensor] = outer.add(
        "TensorListStack", inputs, "tensor", element_dtype=dtype, num_elements=-1
      )
    return self._stacked[tensor]


def in_order(loop: Loop, limit: str) -> Turns:
  """Collects in the order of the turns, of which there are no more than `limit`."""

  def write(items: str, tensor: str, dtype: tf.DType) -> str:
    pushed = [items, tensor]
    return loop.body.add("TensorListPushBack", pushed, "output_handle", element_dtype=dtype)

  return Turns(loop, "EmptyTensorList", limit, write)


def by_index(loop: Loop, index: str, length: str) -> Turns:
  """Collects at an index of the body's, below `length` and another one in each turn."""

  def write(items: str, tensor: str, dtype: tf.DType) -> str:
    changed = [items, index, tensor]
    return loop.body.add("TensorListSetItem", changed, "output_handle", element_dtype=dtype)

  return Turns(loop, "TensorListReserve", length, write)


def join(function: Function, parts: list[str], axis: int, dtype: tf.DType) -> str:
  """Puts tensors together along an axis."""
  if len(parts) == 1:
    return parts[0]
  inputs = [*parts, function.add_constant(axis)]
  return function.add("ConcatV2", inputs, "output", N=len(parts), T=dtype, Tidx=tf.int32)


def list_of(dtype: tf.DType) -> dict[str, tf.DType]:
  """The attributes of an operation that makes a list."""
  return {"element_dtype": dtype, "shape_type": tf.int32}


def unknown(function: Function) -> str:
  """A shape of which nothing is known."""
  return function.add_constant(-1)
