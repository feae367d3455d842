"""Data sets over arrays in memory, made quick to read by index.

`from_tensor_slices(arrays).batch(n)` copies a batch together example by example, and tf.data rewrites the
pipeline before it gives out its first element, which costs more than a small client's training. The same
elements can be had as slices of the arrays, reshaped to one row for each batch: no copy is made for that.
"""

import functools
import weakref
from typing import Any

import tensorflow as tf

# Pipelines of these alone give the same elements by index as by iteration.
_PLAIN = frozenset(
  f"_{kind}Dataset"
  for kind in (
    "TensorSlice",
    "Tensor",
    "Range",
    "Batch",
    "Take",
    "Skip",
    "Concatenate",
    "Prefetch",
    "Options",
  )
)
_variants: "weakref.WeakKeyDictionary[tf.data.Dataset, tf.Tensor]" = weakref.WeakKeyDictionary()


def is_plain(dataset: tf.data.Dataset) -> bool:
  """Whether a data set's elements can be had by index, with the same result as by iteration."""
  return type(dataset).__name__ in _PLAIN and all(map(is_plain, dataset._inputs()))


def variant_of(dataset: tf.data.Dataset) -> tf.Tensor:
  """The tensor that stands for a data set with the elements of a plain one; made once for each."""
  variant = _variants.get(dataset)
  if variant is None:
    variant = _variants[dataset] = _without_rewriting(_stacked(dataset), dataset.element_spec)
  return variant


def _stacked(dataset: tf.data.Dataset) -> tf.Tensor:
  parts = _arrays_and_batch_size(dataset)
  if parts is None:
    return dataset._variant_tensor
  arrays, size, count = parts
  full = count // size
  shapes = [[None, *array.shape[1:]] for array in arrays]
  made = []
  if full:
    rows = [tf.reshape(a[: full * size], [full, size, *a.shape[1:]]) for a in arrays]
    made.append(tf.raw_ops.TensorSliceDataset(components=rows, output_shapes=shapes))
  if count % size:
    rest = [a[full * size :] for a in arrays]
    made.append(tf.raw_ops.TensorDataset(components=rest, output_shapes=shapes))
  if len(made) == 1:
    return made[0]
  types = [array.dtype for array in arrays]
  return tf.raw_ops.ConcatenateDataset(
    input_dataset=made[0], another_dataset=made[1], output_types=types, output_shapes=shapes
  )


def _arrays_and_batch_size(dataset: tf.data.Dataset) -> tuple[list[tf.Tensor], int, int] | None:
  """The arrays of `from_tensor_slices(arrays).batch(size)`, the size, and how many examples count."""
  if type(dataset).__name__ != "_BatchDataset":
    return None
  (source,) = dataset._inputs()
  if type(source).__name__ != "_TensorSliceDataset":
    return None
  arrays = source._tensors
  size, count = int(dataset._batch_size), int(arrays[0].shape[0])
  if any(array.dtype == tf.variant for array in arrays):
    return None
  if bool(dataset._drop_remainder):
    count -= count % size
  return (arrays, size, count) if count else None


def _without_rewriting(variant: tf.Tensor, element_spec: Any) -> tf.Tensor:
  specs = tf.nest.flatten(element_spec)
  return tf.raw_ops.OptionsDataset(
    input_dataset=variant,
    serialized_options=_options(),
    output_types=[spec.dtype for spec in specs],
    output_shapes=[spec.shape for spec in specs],
  )


@functools.cache
def _options() -> bytes:
  options = tf.data.Options()
  options.experimental_optimization.apply_default_optimizations = False
  options.autotune.enabled = False
  return options._to_proto().SerializeToString()
