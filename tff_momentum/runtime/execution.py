"""Chooses where TFF computations run: in this process, on a Ray cluster, or in TFF's own worker."""

import functools
import importlib.util
from typing import Any

import tensorflow_federated as tff

from tff_momentum.runtime import devices as devices_lib
from tff_momentum.runtime import gpu_decisions, gpu_machine, gpu_settings, heap
from tff_momentum.runtime.async_context import AsyncContext
from tff_momentum.runtime.context import InProcessContext
from tff_momentum.runtime.executors import ThreadExecutor
from tff_momentum.runtime.gpu_decisions import Convolutions, DeviceKind, Options, Recurrent
from tff_momentum.runtime.rewrite.options import CompileMode, RewriteOptions
from tff_momentum.runtime.tff_worker import create_worker_context


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
  tf32: bool = False,
  deterministic: bool = False,
  gpu_convolutions: Convolutions = "cudnn",
  gpu_recurrent: Recurrent = "cudnn",
) -> None:
  """Makes TFF run all further computations in the chosen runtime.

  Call it before any other TensorFlow operation, because TensorFlow fixes its thread counts when it starts. It
  does not start TensorFlow itself; the first computation does.

  Args:
    runtime: `"inprocess"` (default), `"ray"` (a cluster), or `"tff"` (the worker process of TFF's wheel).
    devices: In process: `"auto"` (all GPUs, or else the CPU), `"gpu"`, `"cpu"`, `"cpu:N"` for N logical CPU
      devices, `"gpu:N"` for N logical devices on each GPU, or a list of TensorFlow device names.
    max_clients_in_flight: In process: the number of clients that train at the same time; default: one per
      CPU core, or a number per GPU that depends on its memory.
    threads: In process: TensorFlow's threads per operation. Default: one, or a warning if TensorFlow has
      already started with another number. An explicit number that cannot be set is an error.
    compile: In process and on Ray: which gradient functions XLA compiles: `"auto"` (those of recurrent
      models), `"on"` (all with suitable shapes) or `"off"`.
    default_num_clients: The cohort size of computations without arguments placed at clients.
    worker_startup_seconds: How long to wait for TFF's worker (default: 60) or all Ray actors (default: 300).
    address: On Ray: the cluster's `"host:port"`, or `"auto"` for the cluster that this machine belongs to;
      default: a new cluster on this machine, which ends with this process.
    num_actors: On Ray: the number of clients that train at the same time; default: one per GPU of the
      cluster, or one per CPU.
    gpus_per_actor: On Ray: 0.5 lets two clients share a GPU; default: 1 if the cluster has GPUs.
    tf32: On GPUs: whether matrix products and convolutions may use TF32, for the whole process.
    deterministic: On GPUs: whether only deterministic kernels may run, for the whole process. TensorFlow
      raises `UnimplementedError` for an operation that has none.
    gpu_convolutions: On GPUs: `"cudnn"`, or `"xla"` to compile convolutional models.
    gpu_recurrent: On GPUs: `"cudnn"` for recurrent layers where Keras would use its kernel, or `"xla"` to
      compile them.

  Raises:
    ValueError: An argument has a value that is not listed above, or Ray is not installed.
    RuntimeError: TensorFlow has already started with other threads or devices, a GPU is missing, or TFF's
      worker does not answer.
    ConnectionError: There is no Ray cluster at `address`.
    TimeoutError: Ray's actors do not start in time.

  >>> import tensorflow_federated as tff
  >>> from tff_momentum import runtime
  >>> runtime.set_execution_context("inprocess", devices="cpu")
  >>> int(tff.tensorflow.computation(lambda: 6 * 7)())
  42
  """
  context = _create_context(
    runtime,
    devices,
    max_clients_in_flight,
    threads=threads,
    compile=compile,
    default_num_clients=default_num_clients,
    worker_startup_seconds=worker_startup_seconds,
    address=address,
    num_actors=num_actors,
    gpus_per_actor=gpus_per_actor,
    tf32=tf32,
    deterministic=deterministic,
    gpu_convolutions=gpu_convolutions,
    gpu_recurrent=gpu_recurrent,
  )
  tff.framework.set_default_context(context)


def create_async_context(runtime: str = "inprocess", **options: Any) -> AsyncContext:
  """Returns an asynchronous context, as `tff.program` needs one, without making it TFF's default.

  It is a `tff.framework.AsyncExecutionContext`: with it, `tff.program` and `tff.learning.programs` run in any
  of our runtimes.

  Args:
    runtime: `"inprocess"`, `"ray"` or `"tff"`.
    **options: All further arguments of `set_execution_context`.

  Raises:
    ValueError, RuntimeError, ConnectionError, TimeoutError: See `set_execution_context`.

  >>> import asyncio
  >>> import tensorflow_federated as tff
  >>> from tff_momentum import runtime
  >>> async def program():
  ...   answer = tff.tensorflow.computation(lambda: 6 * 7)()
  ...   return int(await answer.get_value())
  >>> context = tff.program.NativeFederatedContext(runtime.create_async_context(devices="cpu"))
  >>> with tff.framework.get_context_stack().install(context):
  ...   asyncio.run(program())
  42
  """
  return AsyncContext(_create_context(runtime, **options))


def _create_context(
  runtime: str,
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
  tf32: bool = False,
  deterministic: bool = False,
  gpu_convolutions: Convolutions = "cudnn",
  gpu_recurrent: Recurrent = "cudnn",
) -> tff.framework.SyncContext:
  if runtime == "inprocess":
    return create_inprocess_context(
      devices,
      max_clients_in_flight,
      threads=threads,
      compile=compile,
      default_num_clients=default_num_clients,
      tf32=tf32,
      deterministic=deterministic,
      gpu_convolutions=gpu_convolutions,
      gpu_recurrent=gpu_recurrent,
    )
  if runtime == "ray":
    _require_ray()
    gpu_settings.apply(tf32, deterministic)
    from tff_momentum.runtime.ray import executor as ray_executor

    devices_lib.prefer_one_thread()
    return ray_executor.create_ray_context(
      address,
      num_actors,
      gpus_per_actor,
      compile=compile,
      default_num_clients=default_num_clients,
      startup_seconds=worker_startup_seconds or 300.0,
      gpu_convolutions=gpu_convolutions,
      gpu_recurrent=gpu_recurrent,
    )
  if runtime == "tff":
    return create_worker_context(default_num_clients, worker_startup_seconds or 60.0)
  raise ValueError(f'Expected runtime to be "inprocess", "ray" or "tff", found {runtime!r}.')


def _require_ray() -> None:
  if importlib.util.find_spec("ray") is None:
    raise ValueError(
      'Expected Ray to be installed for runtime="ray", found no such package; install tff-momentum[cluster].'
    )


def create_inprocess_context(
  devices: str | list[str] = "auto",
  max_clients_in_flight: int | None = None,
  *,
  threads: int | None = None,
  compile: CompileMode = "auto",
  default_num_clients: int = 0,
  tf32: bool = False,
  deterministic: bool = False,
  gpu_convolutions: Convolutions = "cudnn",
  gpu_recurrent: Recurrent = "cudnn",
  as_gpu: bool = False,
) -> InProcessContext:
  """Returns a context that runs computations in this process, without making it TFF's default.

  Args:
    devices: See `set_execution_context`, as for all arguments.
    max_clients_in_flight: The number of clients that train at the same time.
    threads: TensorFlow's threads per operation.
    compile: Which gradient functions XLA compiles.
    default_num_clients: The cohort size of computations without arguments placed at clients.
    tf32: Whether GPUs may use TF32.
    deterministic: Whether only deterministic kernels may run on GPUs.
    gpu_convolutions: Who runs convolutions on GPUs.
    gpu_recurrent: Who runs recurrent layers on GPUs.
    as_gpu: Makes the graphs for a GPU whatever the devices are, for the audit of what a GPU would run.

  Raises:
    ValueError: An argument has an unknown value, or there are fewer clients in flight than devices.
    RuntimeError: TensorFlow has already started with other threads or devices, or a GPU is missing.

  >>> import tensorflow_federated as tff
  >>> from tff_momentum import runtime
  >>> context = runtime.create_inprocess_context("cpu", max_clients_in_flight=2)
  >>> with tff.framework.get_context_stack().install(context):
  ...   int(tff.tensorflow.computation(lambda: 6 * 7)())
  42
  """
  heap.keep_freed_memory()
  if threads is None:
    devices_lib.prefer_one_thread()
  else:
    devices_lib.configure_threads(threads)

  def start() -> ThreadExecutor:
    names = devices_lib.find_devices(devices)
    by_size = "GPU" in names[0] and max_clients_in_flight is None
    rule = functools.partial(_slots_per_gpu, names) if by_size else None
    return ThreadExecutor(names, _slots_per_device(names, max_clients_in_flight), rule)

  # TensorFlow starts at the first computation, but mistakes are reported here.
  names = devices_lib.find_devices(devices)
  _slots_per_device(names, max_clients_in_flight)
  gpu_settings.apply(tf32, deterministic)
  on_gpus = "GPU" in names[0]
  if on_gpus and not gpu_settings.prepare_gpus(Options(tf32=tf32)).compiles:
    compile = "off"
  kind: DeviceKind = "GPU" if on_gpus or as_gpu else "CPU"
  rewrites = RewriteOptions(None, compile, kind, gpu_convolutions, gpu_recurrent)
  return InProcessContext(start, default_num_clients, rewrites)


def _slots_per_device(names: list[str], max_clients_in_flight: int | None) -> int:
  if max_clients_in_flight is None:
    if "GPU" in names[0]:
      return _slots_per_gpu(names, 0)
    return max(1, devices_lib.available_cores() // len(names))
  if max_clients_in_flight < len(names):
    raise ValueError(
      f"Expected max_clients_in_flight to be at least the number of devices, {len(names)}, "
      f"found {max_clients_in_flight}."
    )
  return max_clients_in_flight // len(names)


def _slots_per_gpu(names: list[str], model_bytes: int) -> int:
  """Returns the clients in flight on each device for a model of this size."""
  gpus = gpu_machine.describe().gpus
  memory = min((gpu.memory_bytes for gpu in gpus), default=8 * gpu_decisions.GIGABYTE)
  per_gpu = max(1, len(names) // max(1, len(gpus)))
  cores = devices_lib.available_cores() // max(1, len(gpus))
  return max(1, gpu_decisions.slots_per_gpu(model_bytes, memory, cores) // per_gpu)
