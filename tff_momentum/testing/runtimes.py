"""The runtimes on which a process is run and compared."""

import contextlib
import functools
import importlib.util
from collections.abc import Iterator

import tensorflow_federated as tff

from tff_momentum import runtime
from tff_momentum.testing.outcomes import SkippedCheck


@functools.cache
def _context(name: str, clients: int | None) -> tff.framework.SyncContext:
  if name == "inprocess":
    return runtime.create_inprocess_context("cpu", max_clients_in_flight=clients)
  if name == "tff":
    return runtime.create_worker_context()
  if importlib.util.find_spec("ray") is None:
    raise SkippedCheck("Ray is not installed; install tff-momentum[cluster] to run this check.")
  from tff_momentum.runtime.ray import executor

  return executor.create_ray_context(num_actors=2)


@contextlib.contextmanager
def installed(name: str, clients: int | None = None) -> Iterator[None]:
  """Runs all TFF computations of a block on a runtime, whatever the default is.

  Args:
    name: "inprocess", "tff" or "ray". Each is started once and ends with this Python process.
    clients: In process: the number of clients that train at the same time.

  Raises:
    SkippedCheck: Ray is not installed.
  """
  with tff.framework.get_context_stack().install(_context(name, clients)):
    yield
