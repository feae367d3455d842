"""The number of bytes that a structure of tensors takes on the wire."""

from typing import Any

import tensorflow as tf


def dense_bytes(specs: Any) -> int:
  """The bytes of uncompressed tensors.

  Args:
    specs: any nest of `tf.TensorSpec`.

  Example:
    >>> dense_bytes((tf.TensorSpec([10, 2], tf.float32), tf.TensorSpec([], tf.int32)))
    84
  """
  return sum(spec.shape.num_elements() * spec.dtype.size for spec in tf.nest.flatten(specs))
