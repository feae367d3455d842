"""Every patch of somebody else's code, each with its reason; `tests/runtime/test_compat.py` guards them.

Importing this module imports neither TensorFlow nor TFF, because `load_when_used` must run before them.
"""

import ctypes
import importlib
import importlib.util
import sys
import threading
import types
from typing import Any

_lock = threading.Lock()


class _LazyModule(types.ModuleType):
  """A stand-in that loads the real module when an attribute is first read."""

  def __getattr__(self, name: str) -> Any:
    # Tools that walk `sys.modules` read such attributes of every module; that is no use of this one.
    if name.startswith("__") and name != "__all__":
      raise AttributeError(name)
    with _lock:
      if sys.modules.get(self.__name__) is self:
        del sys.modules[self.__name__]
    return getattr(importlib.import_module(self.__name__), name)


def load_when_used(name: str) -> None:
  """Postpones the import of a module until it is used; does nothing if it is loaded or missing.

  TFF imports all of `tensorflow_probability` for one sampler of distributed differential privacy and spends
  a third of its own import time on that.
  """
  if name in sys.modules:
    return
  spec = importlib.util.find_spec(name)
  if spec is None:
    return
  module = _LazyModule(name)
  module.__file__, module.__spec__ = spec.origin, spec
  if spec.submodule_search_locations is not None:
    module.__path__ = spec.submodule_search_locations
  sys.modules[name] = module


_DICTOFFSET = 36  # index of `tp_dictoffset` in CPython's PyTypeObject, counted in words
_MANAGED_DICT = 1 << 4  # type flag: Python 3.11 stores the attributes beside the object


def stop_eager_tensor_leak() -> None:
  """Stops TensorFlow 2.14 from leaking 48 bytes per eager tensor on Python 3.11.

  Python 3.11 allocates a small attribute array beside each object of a class with a `__dict__` and expects
  the class's deallocator to free it. `EagerTensor`'s deallocator was written in C++ for Python 3.10 and
  does not (https://github.com/tensorflow/tensorflow/issues/62551); training a client leaks about 40 arrays.
  A class whose `__dictoffset__` is 0 gets no array. A tensor that is given an attribute gets an ordinary
  dictionary instead. Existing tensors stay as they are.
  """
  from tensorflow.python.framework import ops

  kind = ops.EagerTensor
  words = (ctypes.c_ssize_t * (_DICTOFFSET + 1)).from_address(id(kind))
  if kind.__flags__ & _MANAGED_DICT and words[_DICTOFFSET] == kind.__dictoffset__:
    words[_DICTOFFSET] = 0
