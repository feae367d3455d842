"""The connection to a Ray cluster: one that is there, or one of our own that ends with this process."""

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

_LOOPBACK = "127.0.0.1"
# Waits for the end of a pipe that this process holds open.
_GUARD = 'read -r _; kill -9 "$@"'


class Connection:
  """Keeps this process connected to a cluster for as long as the object lives.

  Without an address a cluster of one node is started that listens on the loopback interface only. Ray
  asks the kernel to kill its processes with ours, whatever ends us, but not those that they start;
  `guard` sees to these.
  """

  def __init__(self, address: str | None, num_cpus: int | None):
    self.address = address
    self._to_guard = address is None and not ray.is_initialized()
    if ray.is_initialized():  # the caller's own connection, which is the caller's to close
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
          "The Ray cluster at %s may be reached over the network, and Ray asks for no password: whoever can "
          "connect can run code in it. Use it in a network that you trust.", address,
        )  # fmt: skip
      options.update(address=address)
    try:
      with warnings.catch_warnings():
        warnings.simplefilter("ignore", FutureWarning)  # Ray's news of later versions
        ray.init(**options)
    except (ConnectionError, ValueError) as error:
      raise ConnectionError(
        f"Expected a Ray cluster at {address!r}, found none ({error}); start one with `ray start "
        "--head`, or leave the address out to run on this machine alone."
      ) from error
    self.close = weakref.finalize(self, ray.shutdown)

  def guard(self) -> None:
    """Has a small shell kill all of our cluster's processes when this process is gone."""
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
  """Returns the processes that `root` started, and those that they started, and so on."""
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
  """Returns the connection to the cluster at `address`; None stands for one of our own."""
  global _latest
  found = _latest() if _latest else None
  if found is not None and ray.is_initialized():
    if found.address != address:
      raise RuntimeError(
        f"Expected to stay with the Ray cluster at {found.address!r}, found another address, "
        f'{address!r}; call set_execution_context("inprocess") in between.'
      )
    return found
  found = Connection(address, num_cpus)
  _latest = weakref.ref(found)
  return found


def start_actors(
  num_actors: int | None, gpus_per_actor: float | None, startup_seconds: float
) -> dict[Any, str]:
  """Starts actors all over the cluster; returns them with a description of each.

  Args:
    num_actors: default: one for each GPU (or part of one, as `gpus_per_actor` says), or each CPU.
    gpus_per_actor: default: 1 if the cluster has GPUs, else 0.
    startup_seconds: the time limit for all of them to answer.
  """
  resources = ray.cluster_resources()
  cpus, gpus = int(resources.get("CPU", 0)), resources.get("GPU", 0)
  each = (1 if gpus else 0) if gpus_per_actor is None else gpus_per_actor
  room = min(cpus, int(gpus / each)) if each else cpus
  wanted = room if num_actors is None else num_actors
  if not 1 <= wanted <= room:
    raise ValueError(
      f"Expected between 1 and {room} actors on a cluster of {cpus} CPUs and {gpus:g} GPUs (one CPU "
      f"and {each:g} GPUs for each actor), found {wanted}."
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
      "raise worker_startup_seconds, or ask for fewer with num_actors."
    )
  found = {answers[answer]: ray.get(answer) for answer in ready}
  for place in found.values():
    logging.info("Clients run in %s.", place)
  return found


def _python_path() -> str:
  """Returns the search path with which an actor finds this package, and what lies beside it."""
  root = str(pathlib.Path(__file__).resolve().parents[3])
  return os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
