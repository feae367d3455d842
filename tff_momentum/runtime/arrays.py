"""Results are read-only NumPy views of TensorFlow buffers, and become tensors again without a copy.

Otherwise a large server state would be in memory twice, as arrays and as tensors, and would be copied twice a
round. The views are read-only because other results may share the same memory.

Tensors on other devices are copied to host memory and freed on the device: thousands of clients' states fit
into the host's memory, but not into a GPU's.
"""

from typing import Any

import numpy as np
import tensorflow as tf
from tensorflow.python.framework import ops

from tff_momentum.runtime.devices import HOST


class _TensorBuffer:
  """The base of a result's array: it keeps the tensor, and tells NumPy where its buffer is."""

  def __init__(self, tensor: tf.Tensor, array: np.ndarray):
    self.tensor = tensor
    self.array = array  # keeps the buffer alive
    interface = array.__array_interface__
    self.__array_interface__ = {**interface, "data": (interface["data"][0], True)}  # read-only


def array_of(tensor: tf.Tensor) -> np.ndarray | np.generic | bytes:
  """Returns a tensor as a NumPy array; numbers in host memory are not copied."""
  if "/device:CPU:" in tensor.backing_device:
    array = tensor._numpy()
    if isinstance(array, np.ndarray) and array.dtype.kind in "biufc":
      return np.asarray(_TensorBuffer(tensor, array))
  return tensor.numpy()


def is_view(value: np.ndarray) -> bool:
  """Whether an array shows the buffer of a tensor."""
  return isinstance(value.base, _TensorBuffer)


def shared_tensor(array: np.ndarray) -> tf.Tensor:
  """Returns a tensor in host memory that shares the memory of an array which nobody changes."""
  if array.dtype.kind not in "biufc":
    return tf.constant(array)
  return ops.EagerTensor(array, device=HOST, dtype=None)


def tensor_of(value: Any) -> tf.Tensor | None:
  """Returns the tensor that `array_of` made `value` from; None for all other values."""
  base = getattr(value, "base", None)
  if isinstance(base, _TensorBuffer) and value.dtype == base.array.dtype:
    return base.tensor if value.shape == base.array.shape else None
  return None
