"""How the C library keeps the memory that TensorFlow frees.

By default, glibc gives memory at the end of its heaps back to the system as soon as 128 KB of it are free,
and takes blocks above a similar size from the system one by one. The weights of a small model are just as
large: each local step then asks the system for pages, which the system fills with zeros.
"""

import ctypes
import os
import sys

_TRIM_THRESHOLD, _MMAP_THRESHOLD = -1, -3  # numbers of mallopt's options, from malloc.h
_KEPT = 2**26  # bytes at the end of a heap
_LARGE = (
  2**25
)  # bytes, the largest that glibc accepts; larger blocks come from the system as before


def keep_freed_memory() -> bool:
  """Lets the C library keep up to 64 MB of free memory in each of its heaps; returns whether it does.

  It changes nothing if the program's environment sets glibc's options, or if the C library is another one.
  """
  settings = ("MALLOC_TRIM_THRESHOLD_", "MALLOC_MMAP_THRESHOLD_", "GLIBC_TUNABLES")
  if not sys.platform.startswith("linux") or any(name in os.environ for name in settings):
    return False
  try:
    mallopt = ctypes.CDLL(None).mallopt
    os.confstr("CS_GNU_LIBC_VERSION")  # other C libraries do not know it
  except (AttributeError, OSError, ValueError):
    return False
  return bool(mallopt(_TRIM_THRESHOLD, _KEPT) and mallopt(_MMAP_THRESHOLD, _LARGE))
