"""Where TFF computations run: in this process on all devices, on a Ray cluster, or in TFF's own worker."""

import tensorflow_federated as tff

from tff_momentum.runtime import devices as devices_lib
from tff_momentum.runtime.context import InProcessContext
from tff_momentum.runtime.devices import configure_threads
from tff_momentum.runtime.errors import client_labels
from tff_momentum.runtime.executors import ThreadExecutor

__all__ = ["client_labels", "configure_threads", "set_execution_context"]


def set_execution_context(
  runtime: str = "inprocess",
  devices: str | list[str] = "auto",
  max_clients_in_flight: int | None = None,
  *,
  threads: int | None = 1,
  default_num_clients: int = 0,
) -> None:
  """Makes TFF run every computation from now on in the chosen runtime.

  Args:
    runtime: `"inprocess"` (default).
    devices: `"auto"` (all GPUs, else the CPU), `"gpu"`, `"cpu"`, `"cpu:N"` for N logical CPU devices, or names.
    max_clients_in_flight: Clients training at the same time; default: one for each GPU, or for each CPU core.
    threads: TensorFlow threads for one operation; None leaves TensorFlow's setting.
    default_num_clients: Cohort size for computations with no argument placed at clients.
  """
  if runtime != "inprocess":
    raise ValueError(f'Expected runtime to be "inprocess", found {runtime!r}.')
  if threads is not None:
    devices_lib.configure_threads(threads)
  names = devices_lib.find_devices(devices)
  slots = _slots_per_device(names, max_clients_in_flight)
  executor = ThreadExecutor(names, slots)
  tff.framework.set_default_context(InProcessContext(executor, default_num_clients))


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
