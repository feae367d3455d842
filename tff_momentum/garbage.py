"""Python's garbage collector while a program starts.

Importing TensorFlow and tracing graphs make hundreds of thousands of objects that stay. Each time their
number has grown by a quarter, Python looks at all of them for garbage and finds next to none: one and a half
seconds of the twelve in which item D of `experiments/benchmark.py` used to reach its first round.
"""

import contextlib
import gc
from collections.abc import Iterator


@contextlib.contextmanager
def paused() -> Iterator[None]:
  """Collects no garbage inside the `with` block.

  >>> with paused():
  ...   gc.isenabled()
  False
  """
  was_enabled = gc.isenabled()
  gc.disable()
  try:
    yield
  finally:
    if was_enabled:
      gc.enable()


@contextlib.contextmanager
def imports_to_keep() -> Iterator[None]:
  """Collects no garbage inside the `with` block, and never looks for any in what the block leaves behind.

  It is for a script that imports TensorFlow, not for a library: all objects that exist at the end, the
  caller's too, are kept until the program ends unless their reference counts free them.
  """
  with paused():
    yield
    gc.freeze()
