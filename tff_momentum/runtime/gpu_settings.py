"""Puts GPU decisions in force in this process: TF32, deterministic kernels, XLA's flags, logical devices."""

import os

import tensorflow as tf
from absl import logging

from tff_momentum.runtime import gpu_decisions, gpu_machine
from tff_momentum.runtime.gpu_decisions import Decisions, Options

# What `apply` set last, as environment variables that CUDA and TensorFlow read when they start.
_environment: dict[str, str] = {}


def apply(tf32: bool, deterministic: bool) -> None:
  """Sets how exact and how reproducible kernels are, for the whole process.

  Args:
    tf32: Whether matrix products and convolutions on GPUs since Ampere may use TF32.
    deterministic: Whether only deterministic kernels may run. TensorFlow then raises `UnimplementedError` for
      an op that has none, and `RuntimeError` for one that draws random numbers without a seed. A process
      cannot go back.
  """
  tf.config.experimental.enable_tensor_float_32_execution(tf32)
  _environment.pop("NVIDIA_TF32_OVERRIDE", None)
  if not tf32:
    _environment["NVIDIA_TF32_OVERRIDE"] = "0"
  if deterministic:
    tf.config.experimental.enable_op_determinism()
    _environment["TF_DETERMINISTIC_OPS"] = "1"


def environment_of_actors() -> dict[str, str]:
  """Returns the environment variables by which `apply` reaches the actors of a cluster."""
  return dict(_environment)


def prepare_gpus(options: Options) -> Decisions:
  """Decides how to run on this machine's GPUs; sets XLA's flags and logs what the user should know."""
  decisions = gpu_decisions.decide(gpu_machine.describe(), options)
  flags = os.environ.get("XLA_FLAGS", "")
  if decisions.xla_flags and "xla_gpu_cuda_data_dir" not in flags:
    os.environ["XLA_FLAGS"] = f"{flags} {decisions.xla_flags}".strip()
  for sentence in decisions.sentences:
    (logging.warning if sentence.is_problem else logging.info)("%s", sentence.text)
  return decisions


def split_gpu(gpu: tf.config.PhysicalDevice, count: int) -> None:
  """Makes `count` logical devices on a GPU, each with its share of the memory.

  Call it before TensorFlow starts. Memory limits take the place of memory growth: both together are an error.

  Raises:
    ValueError: The memory is too small for so many, or its size is unknown.
  """
  memory = [each.memory_bytes for each in gpu_machine.describe().gpus]
  if not memory:
    raise ValueError(
      'Expected nvidia-smi to tell the memory of the GPUs, found no answer; use devices="gpu".'
    )
  limit = gpu_decisions.memory_limit(min(memory), count)
  parts = [tf.config.LogicalDeviceConfiguration(memory_limit=limit // 2**20)] * count
  tf.config.set_logical_device_configuration(gpu, parts)
