"""Reads `ClientBatches` inside a graph: a loop gathers each batch from the client's arrays by index.

A client's data reaches the graph as one variant tensor, an `Optional` of nine numbers and the arrays (see
`client_batches.leaves`). Operations on data sets change or read the numbers (see `dataset_ops`); a reduction
opens the variant before its loop and reads one batch per step. The operations on numbers and arrays run on
the CPU, where the arrays are; the preprocessing runs where the client trains. For a GPU, a client's own
examples are copied there before the loop, and each step gathers its batch there.
"""

import functools
import itertools
from collections.abc import Callable, Sequence
from typing import NamedTuple

import tensorflow as tf

from tff_momentum.runtime import batch_rule
from tff_momentum.runtime.batch_rule import CPU, BatchRule
from tff_momentum.runtime.rewrite.function_defs import Functions, trace
from tff_momentum.runtime.rewrite.options import NeedsIterators

LEAF, _NUMBER = tf.TensorSpec([], tf.variant), tf.TensorSpec([], tf.int64)
_KEY = tf.TensorSpec([1], tf.uint64)
_traces = itertools.count()


class Numbers(NamedTuple):
  """What tells the clients of a task apart, and what `dataset_ops` change; int64 scalars.

  Position p of the sequence is batch q mod `batches` of epoch ⌊p / period⌋·epochs + ⌊q / batches⌋, where q =
  p mod period.

  Attributes:
    begin: The client's first example in the arrays.
    examples: The number of its examples.
    size: The number of examples in a batch.
    key: The client's seed, 64 bits.
    batches: The number of batches in an epoch.
    count: The number of batches to read.
    period: The number of batches that a repeated sequence repeats; `ENDLESS` if it repeats whole epochs.
    epochs: The number of epochs in a period.
    begun: 1 if the sequence ends by beginning another epoch, as `tf.data` does at the end of a `repeat`.
  """

  begin: tf.Tensor
  examples: tf.Tensor
  size: tf.Tensor
  key: tf.Tensor
  batches: tf.Tensor
  count: tf.Tensor
  period: tf.Tensor
  epochs: tf.Tensor
  begun: tf.Tensor


class Reader(NamedTuple):
  """How a loop reads batches.

  Attributes:
    open: A function from a leaf to the number of batches and the initial loop variables.
    get: A function from the position and the loop variables to a batch, the next position, and the next
      values of the loop variables but the last, which stays the same.
    types: The data types of the loop variables.
    index: The data type of the position and of the number of batches.
  """

  open: Functions
  get: Functions
  types: list[tf.DType]
  index: tf.DType = tf.int64


@functools.lru_cache(maxsize=1024)
def reader(
  rule: BatchRule, element: tuple[tf.TensorSpec, ...], repeats: bool, on_gpu: bool = False
) -> Reader:
  """Returns the functions that read batches.

  Args:
    rule: The rule of the batches.
    element: The specs of an element of the sequence, as the reduction declares them.
    repeats: Whether the graph may repeat its data; if not, there is only one epoch.
    on_gpu: Whether clients train on a GPU, which then holds their examples.
  """
  on_gpu = on_gpu and all(spec.dtype != tf.string for spec in rule.specs)
  kind: _OneEpoch | _ManyEpochs | _OnGpu = _ManyEpochs(rule) if repeats else _OneEpoch(rule)
  if on_gpu:
    kind = _OnGpu(rule, repeats)

  def get(position: tf.Tensor, *variables: tf.Tensor) -> list[tf.Tensor]:
    with tf.device(None if on_gpu else CPU):
      parts, place, following = kind.get(position, *variables)
      following = [position + 1, *following]
    batch = rule.finish(parts, *place)
    for part, spec in zip(batch, element, strict=True):
      part.set_shape(spec.shape)
    return [*batch, *following]

  return Reader(
    trace_unique(f"{rule.name}_open", on_cpu(kind.open), [LEAF]),
    trace_unique(f"{rule.name}_get", get, [tf.TensorSpec([], kind.index), *kind.specs]),
    [spec.dtype for spec in kind.specs],
    kind.index,
  )


class _OneEpoch:
  """Reads the first epoch; its order is computed before the loop."""

  index = tf.int64

  def __init__(self, rule: BatchRule):
    self._rule = rule
    self.specs: tuple[tf.TensorSpec, ...] = (LEAF,)
    orders = [tf.TensorSpec([None], tf.int32)] if rule.shuffled else []
    row = tf.TensorSpec([1], tf.int64)
    self._packed = [_KEY, row, row, row, *orders, *_array_specs(rule)]

  def open(self, leaf: tf.Tensor) -> list[tf.Tensor]:
    numbers, arrays = open_leaf(self._rule, leaf)
    key = tf.bitcast(numbers.key, tf.uint64)[None]
    orders = []
    if self._rule.shuffled:
      draw = tf.constant([batch_rule.first_draw()], tf.uint64)
      orders = [_order(self._rule, key, draw, numbers.begin, numbers.examples)]
    fixed = [key, numbers.size[None], numbers.examples[None], numbers.begin[None]]
    return [numbers.count, _pack([*fixed, *orders, *arrays])]

  def get(self, position, packed):
    key, size, examples, begin, *rest = _unpack(packed, self._packed)
    orders, arrays = (rest[:1], rest[1:]) if self._rule.shuffled else ([None], rest)
    parts = _rows(orders[0], arrays, position * size, size, examples, begin)
    draw = tf.constant([batch_rule.first_draw()], tf.uint64)
    return parts, (key, draw, position), []


class _ManyEpochs:
  """Reads any number of epochs; the order of an epoch is computed in its first step."""

  index = tf.int64

  def __init__(self, rule: BatchRule):
    self._rule = rule
    row = tf.TensorSpec([1], tf.int64)
    self._packed = [_KEY, row, row, row, _NUMBER, _NUMBER, _NUMBER, *_array_specs(rule)]
    self.specs: tuple[tf.TensorSpec, ...] = (tf.TensorSpec([None], tf.int32), _KEY, LEAF)

  def open(self, leaf: tf.Tensor) -> list[tf.Tensor]:
    numbers, arrays = open_leaf(self._rule, leaf)
    key, batches = tf.bitcast(numbers.key, tf.uint64)[None], tf.maximum(numbers.batches, 1)
    rows = [numbers.size[None], numbers.examples[None], numbers.begin[None]]
    packed = _pack([key, *rows, batches, tf.maximum(numbers.period, 1), numbers.epochs, *arrays])
    return [numbers.count, tf.zeros([0], tf.int32), tf.zeros([1], tf.uint64), packed]

  def get(self, position, order, draw, packed):
    key, size, examples, begin, batches, period, epochs, *arrays = _unpack(packed, self._packed)
    in_period = position % period
    k = in_period % batches

    def new_epoch() -> list[tf.Tensor]:
      made = batch_rule.epoch_draw(position // period * epochs + in_period // batches)
      if not self._rule.shuffled:
        return [order, made]
      return [_order(self._rule, key, made, begin[0], examples[0]), made]

    if self._rule.shuffled or self._rule.preprocess is not None:
      order, draw = tf.cond(tf.equal(k, 0), new_epoch, lambda: [order, draw])
    shuffled = order if self._rule.shuffled else None
    parts = _rows(shuffled, arrays, k * size, size, examples, begin)
    return parts, (key, draw, k), [order, draw]


_CARRIED = {
  tf.int8: tf.float16,
  tf.uint8: tf.float16,
  tf.int16: tf.float16,
  tf.uint16: tf.float16,
  tf.int32: tf.float32,
}


class _OnGpu:
  """Reads on the client's device, to which its own examples are copied before the loop.

  A GPU keeps the 32-bit integers that pass through a loop in the host's memory. So numbers are 32-bit
  integers, because the host decides when a loop ends and where a slice begins; and what must stay on the GPU,
  the order and arrays of 32-bit integers, has other types. So have arrays of smaller integers, which a GPU
  has no kernel to gather.
  """

  index = tf.int32

  def __init__(self, rule: BatchRule, repeats: bool):
    self._rule, self._repeats = rule, repeats
    number = tf.TensorSpec([], tf.int32)
    arrays = [tf.TensorSpec(spec.shape, _carried(spec.dtype)) for spec in _array_specs(rule)]
    order = tf.TensorSpec([None], tf.int64)
    self.specs: tuple[tf.TensorSpec, ...] = (order, _KEY, _KEY, *[number] * 5, *arrays)

  def open(self, leaf: tf.Tensor) -> list[tf.Tensor]:
    numbers, arrays = open_leaf(self._rule, leaf)
    key = tf.bitcast(numbers.key, tf.uint64)[None]
    draw = tf.constant([batch_rule.first_draw()], tf.uint64)
    count, examples, size, batches, period, epochs = (
      tf.cast(tf.minimum(number, tf.int32.max), tf.int32)
      for number in (
        numbers.count,
        numbers.examples,
        numbers.size,
        tf.maximum(numbers.batches, 1),
        tf.maximum(numbers.period, 1),
        numbers.epochs,
      )
    )
    own = [
      _same_values(
        _slice(array, numbers.begin[None], (numbers.begin + numbers.examples)[None]), spec.dtype
      )
      for array, spec in zip(arrays, self.specs[-len(arrays) :], strict=True)
    ]
    order = self._order(key, draw, examples)
    return [count, order, draw, key, size, examples, batches, period, epochs, *own]

  def get(self, position, order, draw, key, size, examples, batches, period, epochs, *arrays):
    k = position
    if self._repeats:
      in_period = position % period
      k = in_period % batches

      def new_epoch() -> list[tf.Tensor]:
        made = batch_rule.epoch_draw(position // period * epochs + in_period // batches)
        return [self._order(key, made, examples) if self._rule.shuffled else order, made]

      if self._rule.shuffled or self._rule.preprocess is not None:
        order, draw = tf.cond(tf.equal(k, 0), new_epoch, lambda: [order, draw])
    start = k * size
    end = tf.minimum(start + size, examples)
    rows = tf.raw_ops.StridedSlice(input=order, begin=start[None], end=end[None], strides=[1])
    parts = [
      _same_values(tf.gather(array, rows), spec.dtype)
      for array, spec in zip(arrays, self._rule.specs, strict=True)
    ]
    same = [key, size, examples, batches, period, epochs, *arrays[:-1]]
    return parts, (key, draw, k), [order, draw, *same]

  def _order(self, key: tf.Tensor, draw: tf.Tensor, examples: tf.Tensor) -> tf.Tensor:
    if self._rule.shuffled:
      return tf.cast(self._rule.order(key, draw, examples), tf.int64)
    return tf.range(tf.cast(examples, tf.int64))


def _carried(dtype: tf.DType) -> tf.DType:
  """Returns the type in which a GPU carries an array: kept in the GPU's memory, with a kernel that gathers.

  It has the same size, but for bytes: half floats are the smallest type that can hold and gather them.
  """
  return _CARRIED.get(dtype, dtype)


def _same_values(tensor: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
  """Converts between an array's type and the one that carries it: the bits, or small integers' values."""
  if tensor.dtype == dtype:
    return tensor
  return tf.bitcast(tensor, dtype) if tensor.dtype.size == dtype.size else tf.cast(tensor, dtype)


def _order(rule, key, draw, begin, examples) -> tf.Tensor:
  order = rule.order(key, draw, tf.cast(examples, tf.int32))
  return order + tf.cast(begin, tf.int32)


def _rows(order, arrays, start, size, examples, begin) -> list[tf.Tensor]:
  """Returns the rows of a batch, from `start` in the client's order; all numbers are vectors of length 1."""
  end = tf.minimum(start + size, examples)
  if order is not None:
    rows = _slice(order, start, end)
    return [tf.gather(array, rows) for array in arrays]
  return [_slice(array, begin + start, begin + end) for array in arrays]


def _slice(tensor: tf.Tensor, begin: tf.Tensor, end: tf.Tensor) -> tf.Tensor:
  return tf.raw_ops.StridedSlice(
    input=tensor, begin=begin, end=end, strides=tf.constant([1], tf.int64)
  )


def _array_specs(rule: BatchRule) -> list[tf.TensorSpec]:
  return [tf.TensorSpec([None, *spec.shape[1:]], spec.dtype) for spec in rule.specs]


def open_leaf(rule: BatchRule, leaf: tf.Tensor) -> tuple[Numbers, list[tf.Tensor]]:
  """Returns the numbers and the arrays of a leaf."""
  numbers, *arrays = _unpack(
    leaf, [tf.TensorSpec([len(Numbers._fields)], tf.int64), *_array_specs(rule)]
  )
  return Numbers(*tf.unstack(numbers)), arrays


def _unpack(leaf: tf.Tensor, specs: Sequence[tf.TensorSpec]) -> list[tf.Tensor]:
  return tf.raw_ops.OptionalGetValue(
    optional=leaf,
    output_types=[spec.dtype for spec in specs],
    output_shapes=[spec.shape for spec in specs],
  )


def _pack(components: Sequence[tf.Tensor]) -> tf.Tensor:
  return tf.raw_ops.OptionalFromValue(components=list(components))


def with_numbers(numbers: Numbers, arrays: Sequence[tf.Tensor]) -> tf.Tensor:
  """Returns a leaf with these numbers."""
  return _pack([tf.stack(numbers), *arrays])


def on_cpu(function: Callable[..., list[tf.Tensor]]) -> Callable[..., list[tf.Tensor]]:
  """Returns the function, running on the CPU."""

  def run(*inputs: tf.Tensor) -> list[tf.Tensor]:
    with tf.device(CPU):
      return function(*inputs)

  return run


def trace_unique(
  name: str, function: Callable[..., list[tf.Tensor]], specs: Sequence[tf.TensorSpec]
) -> Functions:
  """Traces a function under a name that no other has.

  Raises:
    NeedsIterators: The function cannot be traced.
  """
  # Two threads may trace the same function at the same time, and TensorFlow wants unique names.
  try:
    return trace(f"tfm_{name}_{next(_traces)}", function, specs)
  except ValueError as error:
    raise NeedsIterators(str(error)) from error
