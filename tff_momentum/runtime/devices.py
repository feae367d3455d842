"""Which devices run clients, and with how many threads.

On CPUs, many clients at the same time with one thread each are faster than one client on all threads,
because small kernels do not parallelise well. TensorFlow fixes its thread counts when its runtime starts, so
a program must choose them first.
"""

import collections
import os
import re

import tensorflow as tf
from absl import logging
from tensorflow.python.eager import context as eager_context

from tff_momentum.runtime import gpu_settings

_TASK = "/job:localhost/replica:0/task:0"
# What the text `devices` may be; the groups are the kind and the number of logical devices.
DEVICES = r"auto|(gpu|cpu)(?::([1-9]\d*))?"
HOST = _TASK + "/device:CPU:0"


def configure_threads(intra_op: int = 1, inter_op: int | None = None) -> None:
  """Sets TensorFlow's thread counts.

  Args:
    intra_op: The number of threads of one operation.
    inter_op: The number of operations that run at the same time; default: the number of cores, at least two.

  Raises:
    RuntimeError: TensorFlow's runtime has already started with other thread counts.

  Example, before any other TensorFlow operation of the program:

      from tff_momentum import runtime
      runtime.configure_threads(intra_op=2)
  """
  wanted = (intra_op, inter_op or max(2, available_cores()))
  found = _set_threads(*wanted)
  if found != wanted:
    raise RuntimeError(_explain_threads(wanted, found))


def prefer_one_thread() -> None:
  """Sets one thread per operation, unless the program has chosen a number itself.

  Logs a warning if TensorFlow has already started with other counts.
  """
  if not _has_started() and tf.config.threading.get_intra_op_parallelism_threads():
    return
  wanted = (1, max(2, available_cores()))
  found = _set_threads(*wanted)
  if found != wanted:
    logging.warning("%s", _explain_threads(wanted, found))


def _set_threads(intra_op: int, inter_op: int) -> tuple[int, int]:
  """Sets the thread counts if TensorFlow has not started yet; returns the ones in force."""
  threading = tf.config.threading
  if not _has_started():
    threading.set_intra_op_parallelism_threads(intra_op)
    threading.set_inter_op_parallelism_threads(inter_op)
  return (
    threading.get_intra_op_parallelism_threads(),
    threading.get_inter_op_parallelism_threads(),
  )


def _explain_threads(wanted: tuple[int, int], found: tuple[int, int]) -> str:
  return (
    f"Expected TensorFlow's (intra, inter) thread counts to be {wanted}, which suits many clients at a time, "
    f"found that TensorFlow has already started with {found}; call set_execution_context before any other "
    "TensorFlow operation."
  )


def available_cores() -> int:
  """Returns the number of CPU cores that this process may use."""
  return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def find_devices(devices: str | list[str]) -> list[str]:
  """Returns the full names of the logical devices that `devices` stands for; configures them if possible.

  It does not start TensorFlow. Until TensorFlow starts, a program may still configure devices, and the names
  may change with that.

  Args:
    devices: `"auto"` is all GPUs, with memory growth, or else the CPU. `"cpu"` and `"gpu"` are all devices of
      that kind. `"cpu:4"` is four logical CPU devices, `"gpu:4"` four logical devices on each GPU. A list has
      names of TensorFlow devices.

  Raises:
    ValueError: `devices` is none of these, or names an unknown device.
    RuntimeError: There is no GPU, or TensorFlow has already started with fewer logical devices.
  """
  if not isinstance(devices, str):
    known = _logical_devices()
    if not devices or not set(known).issuperset(devices):
      raise ValueError(f"Expected devices among {sorted(known)}, found {list(devices)}.")
    return [_TASK + name for name in devices]
  match = re.fullmatch(DEVICES, devices)
  if not match:
    raise ValueError(
      'Expected devices to be "auto", "gpu", "cpu", "gpu:N" or "cpu:N" with N at least 1, or a list of '
      f"names; found {devices!r}."
    )
  kind, parts = match.groups()
  if kind == "cpu" and parts:
    return _split_cpu(int(parts))
  gpus = [] if kind == "cpu" else tf.config.get_visible_devices("GPU")
  if kind == "gpu" and not gpus:
    raise RuntimeError(
      f'Expected at least one GPU for devices "{devices}"; found none. Use "cpu" or "auto".'
    )
  if gpus and not _has_started():
    _configure_gpus(gpus, int(parts) if parts else None)
  found = [_TASK + name for name in _logical_devices("GPU" if gpus else "CPU")]
  if parts and len(found) < int(parts) * len(gpus):
    raise RuntimeError(
      f"Expected {parts} logical devices on each of {len(gpus)} GPUs, found {len(found)} in all; call "
      "set_execution_context before any other TensorFlow operation."
    )
  return found


def _configure_gpus(gpus: list[tf.config.PhysicalDevice], parts: int | None) -> None:
  for gpu in gpus:
    if tf.config.get_logical_device_configuration(gpu) is not None:
      continue  # it has memory limits, which exclude memory growth
    if parts:
      gpu_settings.split_gpu(gpu, parts)
    else:
      tf.config.experimental.set_memory_growth(gpu, True)


def _has_started() -> bool:
  return eager_context.context()._initialized


def _logical_devices(kind: str | None = None) -> list[str]:
  """Returns the names of the logical devices that TensorFlow has, or will have when it starts."""
  if _has_started():
    return [device.name for device in tf.config.list_logical_devices(kind)]
  counts: collections.Counter[str] = collections.Counter()
  for device in tf.config.get_visible_devices(kind):
    parts = tf.config.get_logical_device_configuration(device)
    counts[device.device_type] += 1 if parts is None else len(parts)
  return [f"/device:{kind}:{i}" for kind, count in counts.items() for i in range(count)]


def _split_cpu(count: int) -> list[str]:
  if not _has_started():
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
      cpu, [tf.config.LogicalDeviceConfiguration()] * count
    )
  found = [_TASK + name for name in _logical_devices("CPU")]
  if len(found) < count:
    raise RuntimeError(
      f"Expected {count} logical CPU devices, found {len(found)}; call set_execution_context "
      "before any other TensorFlow operation."
    )
  return found[:count]
