"""Which devices run clients, and with how many threads.

On CPUs many clients at once, each on one thread, beat one client on all threads: small kernels do
not split well. The number of threads can only be chosen before TensorFlow starts its runtime, so
this must come first in a program.
"""

import os
import re

import tensorflow as tf
from absl import logging
from tensorflow.python.eager import context as eager_context

_TASK = "/job:localhost/replica:0/task:0"
HOST = _TASK + "/device:CPU:0"


def configure_threads(intra_op: int = 1, inter_op: int | None = None) -> None:
  """Sets TensorFlow's thread counts; raises if its runtime already started with others."""
  wanted = (intra_op, inter_op or max(2, available_cores()))
  found = _set_threads(*wanted)
  if found != wanted:
    raise RuntimeError(_explain_threads(wanted, found))


def prefer_one_thread() -> None:
  """Sets one thread for each operation if TensorFlow has not started; warns if it is too late."""
  wanted = (1, max(2, available_cores()))
  found = _set_threads(*wanted)
  if found != wanted:
    logging.warning("%s", _explain_threads(wanted, found))


def _set_threads(intra_op: int, inter_op: int) -> tuple[int, int]:
  """Sets the thread counts if that is still possible; returns those in force."""
  threading = tf.config.threading
  if not eager_context.context()._initialized:
    threading.set_intra_op_parallelism_threads(intra_op)
    threading.set_inter_op_parallelism_threads(inter_op)
  return (
    threading.get_intra_op_parallelism_threads(),
    threading.get_inter_op_parallelism_threads(),
  )


def _explain_threads(wanted: tuple[int, int], found: tuple[int, int]) -> str:
  return (
    f"Expected TensorFlow's (intra, inter) thread counts to be {wanted} for many clients at a time, "
    f"found that it already started with {found}; call set_execution_context before any other "
    "TensorFlow operation."
  )


def available_cores() -> int:
  """Returns the number of cores this process may use."""
  return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def find_devices(devices: str | list[str]) -> list[str]:
  """Returns the full names of the logical devices that `devices` stands for, setting them up if need be.

  `"auto"`: all GPUs, with memory growth, or the CPU. `"cpu"` or `"gpu"`: all of that kind.
  `"cpu:4"`: four logical CPU devices. A list: TensorFlow device names, taken as they are.
  """
  if not isinstance(devices, str):
    known = {device.name for device in tf.config.list_logical_devices()}
    if not devices or not known.issuperset(devices):
      raise ValueError(f"Expected devices among {sorted(known)}, found {list(devices)}.")
    return [_TASK + name for name in devices]
  match = re.fullmatch(r"(auto|gpu|cpu(?::(\d+))?)", devices)
  if not match:
    raise ValueError(
      f'Expected devices to be "auto", "gpu", "cpu", "cpu:N" or a list of names, found {devices!r}.'
    )
  if match.group(2):
    return _split_cpu(int(match.group(2)))
  gpus = [] if devices == "cpu" else tf.config.list_physical_devices("GPU")
  if devices == "gpu" and not gpus:
    raise RuntimeError('Expected at least one GPU, found none; use devices="cpu".')
  if gpus and not eager_context.context()._initialized:
    for gpu in gpus:
      tf.config.experimental.set_memory_growth(gpu, True)
  kind = "GPU" if gpus else "CPU"
  return [_TASK + device.name for device in tf.config.list_logical_devices(kind)]


def _split_cpu(count: int) -> list[str]:
  if not eager_context.context()._initialized:
    cpu = tf.config.list_physical_devices("CPU")[0]
    tf.config.set_logical_device_configuration(
      cpu, [tf.config.LogicalDeviceConfiguration()] * count
    )
  found = [_TASK + device.name for device in tf.config.list_logical_devices("CPU")]
  if len(found) < count:
    raise RuntimeError(
      f"Expected {count} logical CPU devices, found {len(found)}; call set_execution_context "
      "before any other TensorFlow operation."
    )
  return found[:count]
