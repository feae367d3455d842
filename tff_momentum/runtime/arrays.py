"""Results as NumPy arrays that show a tensor's memory, and the way back: neither direction copies.

A large server state would else be held once in arrays and once in tensors, and copied twice a round. Such
an array is read-only, since other results may show the same memory.

What is on another device than a CPU is copied, and let go of there: thousands of clients' states fit into
this machine's memory, not into a GPU's.
"""

from typing import Any

import numpy as np
import tensorflow as tf


class _Shown:
  """What a result's array is based on: the tensor, and where NumPy finds its numbers."""

  def __init__(self, tensor: tf.Tensor, array: np.ndarray):
    self.tensor = tensor
    self.array = array  # keeps the memory
    interface = array.__array_interface__
    self.__array_interface__ = {**interface, "data": (interface["data"][0], True)}  # read-only


def array_of(tensor: tf.Tensor) -> Any:
  """The tensor as NumPy has it; numbers in this machine's memory are not copied."""
  if "/device:CPU:" in tensor.backing_device:
    array = tensor._numpy()
    if isinstance(array, np.ndarray) and array.dtype.kind in "biufc":
      return np.asarray(_Shown(tensor, array))
  return tensor.numpy()


def tensor_of(value: Any) -> tf.Tensor | None:
  """The tensor that `value` shows, if it is what `array_of` gave; else None."""
  base = getattr(value, "base", None)
  if isinstance(base, _Shown) and value.dtype == base.array.dtype:
    return base.tensor if value.shape == base.array.shape else None
  return None
