"""Where TFF computations run: in this process, on a Ray cluster, or in TFF's own worker."""

import importlib.util

import tensorflow_federated as tff

from tff_momentum.runtime import devices as devices_lib
from tff_momentum.runtime.context import InProcessContext
from tff_momentum.runtime.devices import configure_threads
from tff_momentum.runtime.errors import client_labels
from tff_momentum.runtime.executors import ThreadExecutor
from tff_momentum.runtime.references import DataReference, DataSource, source
from tff_momentum.runtime.rewrite.options import CompileMode
from tff_momentum.runtime.tff_worker import create_worker_context

__all__ = [
  "DataReference",
  "DataSource",
  "client_labels",
  "configure_threads",
  "create_inprocess_context",
  "create_worker_context",
  "set_execution_context",
  "source",
]


def set_execution_context(
  runtime: str = "inprocess",
  devices: str | list[str] = "auto",
  max_clients_in_flight: int | None = None,
  *,
  threads: int | None = None,
  compile: CompileMode = "auto",
  default_num_clients: int = 0,
  worker_startup_seconds: float | None = None,
  address: str | None = None,
  num_actors: int | None = None,
  gpus_per_actor: float | None = None,
) -> None:
  """Makes TFF run every computation from now on in the chosen runtime.

  Args:
    runtime: `"inprocess"` (default), `"ray"`, a cluster, or `"tff"`, the worker process of TFF's wheel.
    devices: In process: `"auto"` (all GPUs, else the CPU), `"gpu"`, `"cpu"`, `"cpu:N"` for N logical
      CPU devices, or a list of TensorFlow device names.
    max_clients_in_flight: In process: clients training at the same time; default: one for each GPU,
      or one for each CPU core.
    threads: In process: TensorFlow threads for one operation. Default: one, if TensorFlow has not
      started yet (else a warning); a number is insisted on.
    compile: In process and on Ray: whether XLA compiles gradient functions of known shapes:
      `"auto"` (those of recurrent models), `"on"` or `"off"`.
    default_num_clients: Cohort size for computations with no argument placed at clients.
    worker_startup_seconds: Time limit for TFF's worker (default: 60) or all of Ray's actors (default:
      300) to come up.
    address: On Ray: the cluster's `"host:port"`, or `"auto"` for one that this machine is part of;
      default: a cluster of this machine alone, ended with this process.
    num_actors: On Ray: clients training at the same time; default: one for each GPU of the cluster,
      or one for each CPU.
    gpus_per_actor: On Ray: 0.5 lets two clients share a GPU; default: 1 if the cluster has GPUs.
  """
  if runtime == "inprocess":
    context: tff.framework.SyncContext = create_inprocess_context(
      devices,
      max_clients_in_flight,
      threads=threads,
      compile=compile,
      default_num_clients=default_num_clients,
    )
  elif runtime == "ray":
    _require_ray()
    from tff_momentum.runtime.ray import executor as ray_executor

    devices_lib.prefer_one_thread()
    context = ray_executor.create_ray_context(
      address,
      num_actors,
      gpus_per_actor,
      compile=compile,
      default_num_clients=default_num_clients,
      startup_seconds=worker_startup_seconds or 300.0,
    )
  elif runtime == "tff":
    context = create_worker_context(default_num_clients, worker_startup_seconds or 60.0)
  else:
    raise ValueError(f'Expected runtime to be "inprocess", "ray" or "tff", found {runtime!r}.')
  tff.framework.set_default_context(context)


def _require_ray() -> None:
  if importlib.util.find_spec("ray") is None:
    raise ValueError(
      'Expected Ray for runtime="ray", found that it is not installed; install tff-momentum[cluster].'
    )


def create_inprocess_context(
  devices: str | list[str] = "auto",
  max_clients_in_flight: int | None = None,
  *,
  threads: int | None = None,
  compile: CompileMode = "auto",
  default_num_clients: int = 0,
) -> InProcessContext:
  """Returns the in-process context without installing it; see `set_execution_context`."""
  if threads is None:
    devices_lib.prefer_one_thread()
  else:
    devices_lib.configure_threads(threads)
  names = devices_lib.find_devices(devices)
  executor = ThreadExecutor(names, _slots_per_device(names, max_clients_in_flight))
  return InProcessContext(executor, default_num_clients, compile)


def _slots_per_device(names: list[str], max_clients_in_flight: int | None) -> int:
  if max_clients_in_flight is None:
    on_gpu = "GPU" in names[0]
    return 1 if on_gpu else max(1, devices_lib.available_cores() // len(names))
  if max_clients_in_flight < len(names):
    raise ValueError(
      f"Expected max_clients_in_flight to be at least the number of devices, {len(names)}, "
      f"found {max_clients_in_flight}."
    )
  return max_clients_in_flight // len(names)
