"""Collects values that a loop's iterations compute, so that code after the loop can process them together."""

from collections.abc import Callable

import tensorflow as tf

from tff_momentum.runtime.rewrite.function_defs import Function, Loop


class LoopOutputs:
  """The values of a body's matrices in all iterations, stacked after the loop."""

  def __init__(self, loop: Loop, op: str, length: str, write: Callable[[str, str, tf.DType], str]):
    self._loop, self._op, self._length, self._write = loop, op, length, write
    self._stacked: dict[str, str] = {}

  def stacked(self, tensor: str, dtype: tf.DType) -> str:
    """Returns a matrix's values in all iterations, as one tensor."""
    source = self._loop.body.source(tensor)
    if source not in self._stacked:
      parts = self.parts(source, dtype)
      self._stacked[source] = join(self._loop.outer, parts, -1, dtype)
    return self._stacked[source]

  def parts(self, tensor: str, dtype: tf.DType) -> list[str]:
    """Returns the stacked values of the matrices that a matrix is concatenated from, or of the matrix itself.

    The parts are collected and not the whole, because XLA gathers the elements of a fused concatenation one
    by one, which is slow.
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


def in_order(loop: Loop, limit: str) -> LoopOutputs:
  """Collects values in the order of the iterations, at most `limit` of them."""

  def write(items: str, tensor: str, dtype: tf.DType) -> str:
    pushed = [items, tensor]
    return loop.body.add("TensorListPushBack", pushed, "output_handle", element_dtype=dtype)

  return LoopOutputs(loop, "EmptyTensorList", limit, write)


def by_index(loop: Loop, index: str, length: str) -> LoopOutputs:
  """Collects values at an index that the body computes, below `length` and different in each iteration."""

  def write(items: str, tensor: str, dtype: tf.DType) -> str:
    changed = [items, index, tensor]
    return loop.body.add("TensorListSetItem", changed, "output_handle", element_dtype=dtype)

  return LoopOutputs(loop, "TensorListReserve", length, write)


def join(function: Function, parts: list[str], axis: int, dtype: tf.DType) -> str:
  """Concatenates tensors along an axis."""
  if len(parts) == 1:
    return parts[0]
  inputs = [*parts, function.add_constant(axis)]
  return function.add("ConcatV2", inputs, "output", N=len(parts), T=dtype, Tidx=tf.int32)


def list_of(dtype: tf.DType) -> dict[str, tf.DType]:
  """Returns the attributes of an operation that makes a list."""
  return {"element_dtype": dtype, "shape_type": tf.int32}


def unknown(function: Function) -> str:
  """Adds a constant that stands for an unknown shape."""
  return function.add_constant(-1)
