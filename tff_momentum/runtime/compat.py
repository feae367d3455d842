"""Every patch of other projects' code, each with its reason.

Each has a guard in `tests/runtime/test_compat.py` that fails when the patch no longer applies or is no longer
needed. Importing this module imports neither TensorFlow nor TFF, because some patches must come before them.
"""

import atexit
import ctypes
import functools
import importlib
import importlib.util
import signal
import sys
import threading
import types
from typing import Any

_lock = threading.Lock()


class _LazyModule(types.ModuleType):
  """A placeholder that loads the real module when an attribute is first read."""

  def __getattr__(self, name: str) -> Any:
    # Tools that walk `sys.modules` read such attributes of every module; they do not need the real one.
    if name.startswith("__") and name != "__all__":
      raise AttributeError(name)
    with _lock:
      if sys.modules.get(self.__name__) is self:
        del sys.modules[self.__name__]
    return getattr(importlib.import_module(self.__name__), name)


def load_when_used(name: str) -> None:
  """Defers the import of a module until it is used (TFF).

  TFF imports all of `tensorflow_probability` for one sampler of distributed differential privacy, which
  takes a third of TFF's own import time. A module that is already loaded, or not installed, stays as it is.

  Args:
    name: The module's full name.
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
  """Stops TensorFlow 2.14 from leaking 48 bytes per eager tensor (TensorFlow on Python 3.11).

  Python 3.11 allocates a small attribute array beside each object of a class with a `__dict__` and expects
  the class's deallocator to free it. `EagerTensor`'s deallocator was written in C++ for Python 3.10 and
  does not (https://github.com/tensorflow/tensorflow/issues/62551); training a client leaks about 40 arrays.
  A class whose `__dictoffset__` is 0 gets no array. A tensor that is given an attribute gets an ordinary
  dictionary instead. Existing tensors are not changed. Calling this function again does nothing.
  """
  from tensorflow.python.framework import ops

  kind = ops.EagerTensor
  words = (ctypes.c_ssize_t * (_DICTOFFSET + 1)).from_address(id(kind))
  if kind.__flags__ & _MANAGED_DICT and words[_DICTOFFSET] == kind.__dictoffset__:
    words[_DICTOFFSET] = 0


_MAX_CACHED_TYPES = 4096


def read_types_once() -> None:
  """Lets TFF read equal serialised types once (TFF).

  TFF caches how it writes a type, but not how it reads one. Each part of a computation carries its type, and
  the types of a model with 60 weights were read 100,000 times: 0.6 s of the start of a ResNet. Types are
  immutable, so equal ones can be shared. Calling this function again does nothing.
  """
  from tensorflow_federated.python.core.impl.types import type_serialization

  read = type_serialization.deserialize_type
  if hasattr(read, "__wrapped__"):
    return
  cache: dict[bytes, Any] = {}

  @functools.wraps(read)
  def deserialize_type(type_proto: Any) -> Any:
    key = type_proto.SerializeToString(deterministic=True)
    found = cache.get(key)
    if found is None:
      if len(cache) >= _MAX_CACHED_TYPES:
        cache.clear()
      found = cache[key] = read(type_proto)
    return found

  type_serialization.deserialize_type = deserialize_type


def end_default_worker_at_exit() -> None:
  """Ends the worker of TFF's default context when the program exits, without noise (TFF).

  Importing TFF installs a context that starts a worker process on first use and ends it in a `__del__`. That
  context lives until the interpreter has dismantled its modules, so the `__del__` always fails: it prints
  "Exception ignored in ... 'NoneType' object has no attribute 'Popen'", even if no worker was ever started,
  and leaves a started worker running. Here the context is released while all modules are still intact.
  """
  atexit.register(_release_default_context)


def _release_default_context() -> None:
  if "tensorflow_federated" not in sys.modules:
    return
  from tensorflow_federated.python.core.impl.context_stack import set_default_context
  from tensorflow_federated.python.core.impl.executor_stacks import executor_factory

  # TFF sends SIGINT and then waits, but the worker of a shell's background job ignores SIGINT.
  executor_factory.signal = types.SimpleNamespace(SIGINT=signal.SIGKILL)
  set_default_context.set_no_default_context()
