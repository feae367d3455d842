"""Tensors of many clients as TensorLists, which a loop inside a graph reads and writes by index.

A list holds references to the tensors, so nothing is copied, and clients' tensors may have different shapes.
One call of a small function packs or unpacks the tensors of several clients, because one eager operation for
each tensor would take longer than a small client's training.
"""

import functools
import threading
from collections.abc import Sequence

import tensorflow as tf

from tff_momentum.runtime import functions
from tff_momentum.runtime.devices import HOST

# List operations always run on the CPU: lists of data sets and of integers have no GPU kernels.
CPU = "/device:CPU:0"
# One call packs or unpacks up to so many clients, and fewer if they have many tensors: a function with
# thousands of operations takes seconds to trace.
_CLIENTS_PER_CALL, _TENSORS_PER_CALL = 16, 128
_SPEC = tf.TensorSpec([], tf.variant)
_lock = threading.Lock()


def pack(clients: Sequence[Sequence[tf.Tensor]]) -> list[tf.Tensor]:
  """Returns one list for each position: list k holds the k-th tensor of every client.

  A list may be longer than the number of clients.

  Args:
    clients: The tensors of at least one client; all have the same data types.
  """
  with _lock:
    function = _packer(tuple(tensor.dtype for tensor in clients[0]))
  packed: list[tf.Tensor] = []
  step = _clients_per_call(len(clients[0]))
  for first in range(0, len(clients), step):
    piece = clients[first : first + step]
    padded = [*piece, *[piece[-1]] * (step - len(piece))]
    made = function([tensor for tensors in padded for tensor in tensors], HOST)
    packed = list(map(_concat, packed, made, clients[0])) if packed else made
  return packed


def unpack(
  lists: Sequence[tf.Tensor], count: int, dtypes: Sequence[tf.DType]
) -> list[list[tf.Tensor]]:
  """Returns the tensors of `count` clients, or blocks, from lists with these data types."""
  if not lists:
    return [[] for _ in range(count)]
  width = len(lists)
  items: list[list[tf.Tensor]] = []
  while len(items) < count:
    # Powers of two, so that there are few functions to trace, and few tensors that nobody needs.
    step = min(_clients_per_call(width), 1 << (count - len(items) - 1).bit_length())
    with _lock:
      function = _unpacker(tuple(dtypes), step)
    tensors = function([*lists, tf.constant(len(items))], HOST)
    items += [tensors[i : i + width] for i in range(0, len(tensors), width)]
  return items[:count]


def empty(dtype: tf.DType) -> tf.Tensor:
  """Returns a list without items, in the graph being traced."""
  with tf.device(CPU):
    return tf.raw_ops.EmptyTensorList(element_shape=-1, max_num_elements=-1, element_dtype=dtype)


def append(items: tf.Tensor, tensor: tf.Tensor) -> tf.Tensor:
  """Returns a list with one more item, in the graph being traced."""
  with tf.device(CPU):
    return tf.raw_ops.TensorListPushBack(input_handle=items, tensor=tensor)


def get(items: tf.Tensor, index: tf.Tensor, spec: tf.TensorSpec) -> tf.Tensor:
  """Returns an item of a list, in the graph being traced."""
  with tf.device(CPU):
    item = tf.raw_ops.TensorListGetItem(
      input_handle=items, index=index, element_shape=-1, element_dtype=spec.dtype
    )
  item.set_shape(spec.shape)
  return item


def _clients_per_call(width: int) -> int:
  return max(1, min(_CLIENTS_PER_CALL, _TENSORS_PER_CALL // max(width, 1)))


def _concat(a: tf.Tensor, b: tf.Tensor, example: tf.Tensor) -> tf.Tensor:
  with tf.device(HOST):
    return tf.raw_ops.TensorListConcatLists(input_a=a, input_b=b, element_dtype=example.dtype)


@functools.cache
def _packer(dtypes: tuple[tf.DType, ...]) -> functions.FlatFunction:
  def run(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
    packed = []
    for k, dtype in enumerate(dtypes):
      items = empty(dtype)
      for tensor in tensors[k :: len(dtypes)]:
        items = append(items, tensor)
      packed.append(items)
    return packed

  specs = [tf.TensorSpec(None, dtype) for dtype in dtypes] * _clients_per_call(len(dtypes))
  return functions.FlatFunction("pack", run, specs)


@functools.cache
def _unpacker(dtypes: tuple[tf.DType, ...], count: int) -> functions.FlatFunction:
  def run(inputs: list[tf.Tensor]) -> list[tf.Tensor]:
    *lists, first = inputs
    with tf.device(CPU):
      last = tf.raw_ops.TensorListLength(input_handle=lists[0]) - 1
      indices = [tf.minimum(first + i, last) for i in range(count)]
    return [
      get(items, index, tf.TensorSpec(None, dtype))
      for index in indices
      for items, dtype in zip(lists, dtypes, strict=True)
    ]

  return functions.FlatFunction(
    "unpack", run, [*[_SPEC] * len(dtypes), tf.TensorSpec([], tf.int32)]
  )
