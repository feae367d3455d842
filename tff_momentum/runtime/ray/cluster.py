"""The connection to a Ray cluster: an existing one, or one that this process starts and ends."""

import contextlib
import logging as python_logging
import os
import pathlib
import subprocess
import warnings
import weakref
from typing import Any

import ray
from absl import logging

from tff_momentum.runtime.devices import available_cores
from tff_momentum.runtime.ray import address as address_lib

_LOOPBACK = "127.0.0.1"
# Waits for the end of a pipe, which this process holds open, and kills the processes in its arguments.
_GUARD = 'read -r _; kill -9 "$@"'


class Connection:
  """Keeps this process connected to a cluster while the object lives.

  Without an address, it starts a cluster of one node that listens only on the loopback interface. Ray asks
  the kernel to kill its processes when ours ends, but not the processes that they start; `guard` kills
  those.
  """

  def __init__(self, address: str | None, num_cpus: int | None):
    self.address = address
    self._to_guard = address is None and not ray.is_initialized()
    self._guard: subprocess.Popen | None = None
    if ray.is_initialized():  # the caller's connection, which the caller closes
      self.close = weakref.finalize(self, lambda: None)
      return
    for name in ("RAY_USAGE_STATS_ENABLED", "RAY_enable_metrics_collection"):
      os.environ.setdefault(name, "0")
    options: dict[str, Any] = {"logging_level": python_logging.ERROR, "log_to_driver": False}
    if address is None:
      options.update(
        address="local",
        num_cpus=num_cpus or available_cores(),
        include_dashboard=False,
        _node_ip_address=_LOOPBACK,
      )
    else:
      if not address.startswith((_LOOPBACK, "localhost")):
        logging.warning(
          "The Ray cluster at %s may be reachable over the network, and Ray requires no password: anyone who "
          "can connect can run code in it. Use it only in a network that you trust.", address,
        )  # fmt: skip
      options.update(address=address)
      address_lib.check_listening(address)
    try:
      with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # about later versions of Ray
        ray.init(**options)
    except (ConnectionError, ValueError) as error:
      raise ConnectionError(
        f"Expected a Ray cluster at {address!r}; found none ({' '.join(str(error).split())}). Start one "
        "with `ray start --head`, or omit the address to run on this machine only."
      ) from error
    self.close = weakref.finalize(self, ray.shutdown)

  def guard(self) -> None:
    """Starts a small shell that kills all processes of our cluster when this process has ended.

    Call it again whenever new processes have started.
    """
    if self._to_guard:
      pids = [str(pid) for pid in _descendants(os.getpid())]
      shell = subprocess.Popen(
        ["/bin/sh", "-c", _GUARD, "sh", *pids],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
      )
      if self._guard:
        _end_guard(self._guard)
      self._guard = shell
      self.close.detach()
      self.close = weakref.finalize(self, _shut_down, shell)


def _shut_down(guard: subprocess.Popen) -> None:
  ray.shutdown()
  _end_guard(guard)


def _end_guard(guard: subprocess.Popen) -> None:
  guard.kill()
  guard.communicate()


def _descendants(root: int) -> list[int]:
  """Returns the processes that `root` started, directly or indirectly."""
  parents = {}
  for stat in pathlib.Path("/proc").glob("[0-9]*/stat"):
    with contextlib.suppress(OSError):
      parents[int(stat.parent.name)] = int(stat.read_text().rsplit(")", 1)[1].split()[1])
  found = [root]
  for process in found:
    found += [child for child, parent in parents.items() if parent == process]
  return found[1:]


_latest: weakref.ref[Connection] | None = None


def connect(address: str | None, num_cpus: int | None = None) -> Connection:
  """Returns the connection to the cluster at `address`, or to one on this machine if it is None.

  Args:
    address: The cluster's `"host:port"`, or `"auto"`.
    num_cpus: The number of CPUs of a cluster on this machine; default: all available cores.

  Raises:
    ConnectionError: There is no cluster at `address`.
    RuntimeError: This process is connected to another cluster.
  """
  global _latest
  found = _latest() if _latest else None
  if found is not None and ray.is_initialized():
    if found.address != address:
      raise RuntimeError(
        f"Expected the address of the Ray cluster in use, {found.address!r}, found another one, "
        f'{address!r}; call set_execution_context("inprocess") in between.'
      )
    return found
  found = Connection(address, num_cpus)
  _latest = weakref.ref(found)
  return found
