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
from tff_momentum.runtime.ray import actor as ray_actor
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
    """Starts a small shell that kills all processes of our cluster when this process has ended."""
    if self._to_guard:
      self._to_guard = False
      pids = [str(pid) for pid in _descendants(os.getpid())]
      shell = subprocess.Popen(
        ["/bin/sh", "-c", _GUARD, "sh", *pids],
        stdin=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
      )
      self.close.detach()
      self.close = weakref.finalize(self, _shut_down, shell)


def _shut_down(guard: subprocess.Popen) -> None:
  ray.shutdown()
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


def start_actors(
  num_actors: int | None, gpus_per_actor: float | None, startup_seconds: float
) -> dict[Any, str]:
  """Starts actors on all nodes of the cluster; returns them with a description of each.

  Args:
    num_actors: Default: one per GPU, or per share of a GPU that `gpus_per_actor` sets, or else one per CPU.
    gpus_per_actor: Default: 1 if the cluster has GPUs, else 0.
    startup_seconds: How long to wait for all of them to answer.

  Raises:
    ValueError: The cluster has no room for so many actors.
    TimeoutError: Some actors do not answer in time.
  """
  resources = ray.cluster_resources()
  cpus, gpus = int(resources.get("CPU", 0)), resources.get("GPU", 0)
  each = (1 if gpus else 0) if gpus_per_actor is None else gpus_per_actor
  room = min(cpus, int(gpus / each)) if each else cpus
  wanted = room if num_actors is None else num_actors
  if not 1 <= wanted <= room:
    raise ValueError(
      f"Expected between 1 and {room} actors on a cluster of {cpus} CPUs and {gpus:g} GPUs (one CPU "
      f"and {each:g} GPUs per actor), found {wanted}."
    )
  actor_class: Any = ray.remote(ray_actor.ClientActor)
  start = actor_class.options(
    num_cpus=1,
    num_gpus=each,
    scheduling_strategy="SPREAD",
    runtime_env={"env_vars": {"PYTHONPATH": _python_path()}},
  )
  actors = [start.remote() for _ in range(wanted)]
  answers = {actor.describe.remote(): actor for actor in actors}
  ready, late = ray.wait(list(answers), num_returns=wanted, timeout=startup_seconds)
  if late:
    for actor in actors:
      ray.kill(actor)
    raise TimeoutError(
      f"Expected {wanted} Ray actors to answer within {startup_seconds:g} s, found {len(ready)}; "
      "raise worker_startup_seconds, or lower num_actors."
    )
  found = {answers[answer]: ray.get(answer) for answer in ready}
  for place in found.values():
    logging.info("Clients run in %s.", place)
  return found


def _python_path() -> str:
  """Returns the search path by which actors find this package and its neighbours."""
  root = str(pathlib.Path(__file__).resolve().parents[3])
  return os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
