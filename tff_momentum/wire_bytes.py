"""How many bytes a structure of tensors takes on the wire."""

from typing import Any

import tensorflow as tf


def dense_bytes(specs: Any) -> int:
  """The bytes of tensors that travel as they are; `specs` is any nest of `tf.TensorSpec`s."""
  return sum(spec.shape.num_elements() * spec.dtype.size for spec in tf.nest.flatten(specs))
