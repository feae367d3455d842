"""Keeps TensorFlow 2.14 from losing 48 bytes with every eager tensor on Python 3.11.

Python 3.11 gives each object of a class with a `__dict__` a small array for its attributes, beside the
object, and frees it in the class's own deallocator. `EagerTensor` has a deallocator written in C++ for
Python 3.10, which does not: the array stays behind for ever, about 40 of them for each client trained
(https://github.com/tensorflow/tensorflow/issues/62551).

A class whose `__dictoffset__` is 0 gets no such array in advance. Nothing else is lost by it: a tensor
that is given an attribute after all gets an ordinary dictionary then.
"""

import ctypes

from tensorflow.python.framework import ops

_DICTOFFSET = 36  # its place in CPython's PyTypeObject, all of whose fields are one word each
_MANAGED_DICT = 1 << 4  # the flag of classes whose attributes Python 3.11 keeps beside the object


def stop_leak() -> None:
  """Has eager tensors made without the array from now on; those that exist stay as they are."""
  kind = ops.EagerTensor
  words = (ctypes.c_ssize_t * (_DICTOFFSET + 1)).from_address(id(kind))
  if kind.__flags__ & _MANAGED_DICT and words[_DICTOFFSET] == kind.__dictoffset__:
    words[_DICTOFFSET] = 0
