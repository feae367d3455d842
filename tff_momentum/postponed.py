"""Makes TensorFlow Federated quicker to import: what hardly any run needs is loaded when it is first used.

TFF imports all of `tensorflow_probability` for one sampler of distributed differential privacy, and spends
a third of its own import time on that. In the place of the module stands one that loads it as soon as
anything is asked of it; whoever imports it gets the same module later rather than sooner.
"""

import importlib
import importlib.util
import sys
import threading
import types
from typing import Any

_lock = threading.Lock()


class _Postponed(types.ModuleType):
  """A module that becomes the real one at the first look inside."""

  def __getattr__(self, name: str) -> Any:
    # Tools that walk over all modules ask each one for such names; that is no use of the module.
    if name.startswith("__") and name != "__all__":
      raise AttributeError(name)
    with _lock:
      if sys.modules.get(self.__name__) is self:
        del sys.modules[self.__name__]
    return getattr(importlib.import_module(self.__name__), name)


def postpone(name: str) -> None:
  """Loads the module of this name when it is first used, unless it is loaded or missing."""
  if name in sys.modules:
    return
  spec = importlib.util.find_spec(name)
  if spec is None:
    return
  module = _Postponed(name)
  module.__file__, module.__spec__ = spec.origin, spec
  if spec.submodule_search_locations is not None:
    module.__path__ = spec.submodule_search_locations
  sys.modules[name] = module
