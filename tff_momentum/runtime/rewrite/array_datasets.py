"""Data sets over arrays in memory, as lists of batches that a loop reads by index.

An iterator costs a thread switch for itself and for each batch, and `from_tensor_slices(arrays).batch(n)`
assembles every batch example by example, which takes longer than a small client's training. The same batches
are slices of the arrays. A listed data set is one variant tensor, like a data set: a `TensorList` whose first
item holds the number of batches to read, followed by a list of batches for each component. A reader that
reaches the end of a list starts again at its beginning.

The functions below replace data set ops in a client's graph. They run on the CPU, as those ops do.
"""

import functools
import weakref
from collections.abc import Callable, Iterable, Sequence

import tensorflow as tf

from tff_momentum.runtime.rewrite.function_defs import Functions, trace

_CPU = "/device:CPU:0"
_ENDLESS = tf.int64.max
_listed: "weakref.WeakKeyDictionary[tf.data.Dataset, tf.Tensor]" = weakref.WeakKeyDictionary()


def is_listable(dataset: tf.data.Dataset) -> bool:
  """Whether a data set's batches are slices of arrays in memory, as far as we can tell."""
  return _source(dataset) is not None


def variant_of(dataset: tf.data.Dataset) -> tf.Tensor:
  """Returns a listable data set as a list of batches, made once for each data set.

  Raises:
    ValueError: The data set is not listable.
  """
  variant = _listed.get(dataset)
  if variant is None:
    source = _source(dataset)
    if source is None:
      raise ValueError(f"Expected a data set over arrays in memory, found {dataset}.")
    arrays, size, count = source
    with tf.device(_CPU):
      variant = _listed[dataset] = _pack(
        tf.cast(count if size is None else -(-count // size), tf.int64),
        [_rows(array, size, count) for array in arrays],
      )
  return variant


def _source(dataset: tf.data.Dataset) -> tuple[list[tf.Tensor], int | None, int] | None:
  """Returns the arrays of `from_tensor_slices(arrays)[.batch(size)]`, the size, and the number of rows."""
  kind = type(dataset).__name__
  if kind in ("_OptionsDataset", "_PrefetchDataset"):
    return _source(dataset._inputs()[0])
  if kind == "_TensorSliceDataset":
    arrays = dataset._tensors
    return None if any(a.dtype == tf.variant for a in arrays) else (arrays, None, len(arrays[0]))
  if kind != "_BatchDataset":
    return None
  source = _source(dataset._inputs()[0])
  if source is None or source[1] is not None:
    return None
  arrays, _, count = source
  size = int(dataset._batch_size)
  return arrays, size, count - count % size if bool(dataset._drop_remainder) else count


def _rows(array: tf.Tensor, size: int | None, count: int) -> tf.Tensor:
  """Returns a list of the array's rows, or of its batches.

  Batches that are aligned in memory share it with the array; `TensorListFromTensor` would copy them.
  """
  shape = array.shape[1:].as_list()
  if size is None:
    # An empty Python list would become a tensor of floats, which is no shape.
    return tf.raw_ops.TensorListFromTensor(tensor=array, element_shape=tf.constant(shape, tf.int32))
  full = count // size
  batches = tf.split(array[: full * size], full) if full else []
  if count % size:
    batches.append(array[full * size : count])
  return _list(batches, array.dtype, [-1, *shape])


def _list(items: Sequence[tf.Tensor], dtype: tf.DType, shape: Sequence[int]) -> tf.Tensor:
  made = tf.raw_ops.EmptyTensorList(
    element_shape=tf.constant(shape, tf.int32), max_num_elements=-1, element_dtype=dtype
  )
  for item in items:
    made = tf.raw_ops.TensorListPushBack(input_handle=made, tensor=item)
  return made


def _pack(count: tf.Tensor, components: Sequence[tf.Tensor]) -> tf.Tensor:
  return _list([_list([count], tf.int64, []), *components], tf.variant, [])


def _item(
  items: tf.Tensor, index: int | tf.Tensor, dtype: tf.DType, shape: Iterable[int | None] = ()
) -> tf.Tensor:
  static = tf.TensorShape(shape)
  known = [-1 if size is None else size for size in static] if static.rank is not None else -1
  item = tf.raw_ops.TensorListGetItem(
    input_handle=items, index=index, element_shape=known, element_dtype=dtype
  )
  item.set_shape(static)
  return item


def _open(items: tf.Tensor, components: int) -> tuple[tf.Tensor, list[tf.Tensor]]:
  """Returns the number of batches to read, and the components' lists."""
  parts = [_item(items, 1 + i, tf.variant) for i in range(components)]
  return _item(_item(items, 0, tf.variant), 0, tf.int64), parts


def _length(part: tf.Tensor) -> tf.Tensor:
  return tf.cast(tf.raw_ops.TensorListLength(input_handle=part), tf.int64)


def _resize(part: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
  return tf.raw_ops.TensorListResize(input_handle=part, size=tf.cast(length, tf.int32))


def _cardinality(dtypes: Sequence[tf.DType], items: tf.Tensor) -> tf.Tensor:
  count, _ = _open(items, 0)
  endless = tf.constant(tf.data.INFINITE_CARDINALITY, tf.int64)
  return tf.where(tf.equal(count, _ENDLESS), endless, count)


def _same(dtypes: Sequence[tf.DType], items: tf.Tensor, *settings: tf.Tensor) -> tf.Tensor:
  return tf.identity(items)


def _take(dtypes: Sequence[tf.DType], items: tf.Tensor, at_most: tf.Tensor) -> tf.Tensor:
  count, parts = _open(items, len(dtypes))
  count = tf.where(at_most < 0, count, tf.minimum(count, at_most))
  return _pack(count, [_resize(part, tf.minimum(count, _length(part))) for part in parts])


def _repeat(dtypes: Sequence[tf.DType], items: tf.Tensor, times: tf.Tensor) -> tf.Tensor:
  count, parts = _open(items, len(dtypes))
  length = tf.maximum(_length(parts[0]), 1)
  starts_over = tf.equal(count % length, 0) | tf.equal(count, _ENDLESS)
  parts = [
    tf.cond(starts_over, lambda: part, functools.partial(_unrolled, part, dtype, count, length))  # noqa: B023
    for part, dtype in zip(parts, dtypes, strict=True)
  ]
  endless = (times < 0) & (count > 0) | tf.equal(count, _ENDLESS) & tf.not_equal(times, 0)
  return _pack(tf.where(endless, _ENDLESS, count * tf.maximum(times, 0)), parts)


def _unrolled(part: tf.Tensor, dtype: tf.DType, count: tf.Tensor, length: tf.Tensor) -> tf.Tensor:
  """Returns a list of `count` batches, for data that ends in the middle of a pass over the batches."""

  def lengthen(k, longer):
    both = tf.raw_ops.TensorListConcatLists(input_a=longer, input_b=part, element_dtype=dtype)
    return k + 1, both

  passes = -(-count // length)
  _, longer = tf.while_loop(lambda k, _: k < passes, lengthen, (tf.ones([], tf.int64), part))
  return _resize(longer, count)


# The replacement of each data set op: (dtypes of the components, the op's inputs) -> output.
REPLACEMENTS: dict[str, Callable[..., tf.Tensor]] = {
  "DatasetCardinality": _cardinality,
  "OptionsDataset": _same,
  "PrefetchDataset": _same,
  "RepeatDataset": _repeat,
  "TakeDataset": _take,
}
_INPUTS = {"DatasetCardinality": 1, "OptionsDataset": 1}


@functools.cache
def replacement(op: str, dtypes: tuple[tf.DType, ...]) -> Functions:
  """Returns the function that replaces a data set op."""
  specs = [tf.TensorSpec([], tf.variant), tf.TensorSpec([], tf.int64)][: _INPUTS.get(op, 2)]
  name = "_".join(["tfm_list", op, *(dtype.name for dtype in dtypes)])
  return _trace_on_cpu(name, lambda *inputs: [REPLACEMENTS[op](dtypes, *inputs)], specs)


@functools.cache
def opener(components: int) -> Functions:
  """Returns a function from a listed data set to its number of batches and its components' lists."""

  def open_list(items: tf.Tensor) -> list[tf.Tensor]:
    count, parts = _open(items, components)
    return [count, *parts]

  return _trace_on_cpu(f"tfm_list_open_{components}", open_list, [tf.TensorSpec([], tf.variant)])


@functools.cache
def getter(specs: tuple[tf.TensorSpec, ...]) -> Functions:
  """Returns a function from a position and the components' lists to a batch and the next position."""

  def get(position: tf.Tensor, *parts: tf.Tensor) -> list[tf.Tensor]:
    index = tf.cast(tf.math.floormod(position, _length(parts[0])), tf.int32)
    batch = [_item(p, index, s.dtype, s.shape) for p, s in zip(parts, specs, strict=True)]
    return [*batch, position + 1]

  name = "_".join(f"{s.dtype.name}{s.shape}" for s in specs)
  name = "".join(c if c.isalnum() else "_" for c in name)
  inputs = [tf.TensorSpec([], tf.int64), *(tf.TensorSpec([], tf.variant) for _ in specs)]
  return _trace_on_cpu(f"tfm_list_get_{name}", get, inputs)


def _trace_on_cpu(
  name: str, function: Callable[..., list[tf.Tensor]], specs: Sequence[tf.TensorSpec]
) -> Functions:
  def on_cpu(*inputs: tf.Tensor) -> list[tf.Tensor]:
    with tf.device(_CPU):
      return function(*inputs)

  return trace(name, on_cpu, specs)
