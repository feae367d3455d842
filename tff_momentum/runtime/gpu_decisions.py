"""All decisions about GPUs: a function from the description of a machine to decisions and sentences.

`decide` is a pure function and imports no TensorFlow, so every rule is tested on machines that nobody has
here. `gpu_machine.describe` describes the machine at hand; `docs/gpu.md` shows `TABLE`.
"""

import enum
from typing import Literal, NamedTuple

from tff_momentum.runtime import gpu_requirements as requirements
from tff_momentum.runtime.gpu_requirements import GIGABYTE, LIBRARIES, Gpu, Machine, Sentence

__all__ = ["GIGABYTE", "LIBRARIES", "Gpu", "Machine", "Sentence"]

DeviceKind = Literal["CPU", "GPU"]
Convolutions = Literal["cudnn", "xla"]
Recurrent = Literal["cudnn", "xla"]

# What a GPU holds beside clients: CUDA's context, the kernels, cuDNN's and cuBLAS's workspaces.
RESERVED = GIGABYTE
# A client in flight holds its weights, its gradient, the message, the upload, the partial aggregate and
# temporary copies of some of them, and the activations of a batch.
COPIES_OF_THE_MODEL, ACTIVATIONS = 8, GIGABYTE // 4
# Clients in flight on one GPU by the size of the weights: the kernels of a small model keep a GPU busy for a
# shorter time than the CPU needs to launch them, so several threads launch at the same time.
SLOTS = ((4 * 10**6, 8), (40 * 10**6, 4), (120 * 10**6, 2))


class Xla(enum.Enum):
  """What XLA compiles of a hot function."""

  NOTHING = "nothing"
  MAX_POOL_GRADIENTS = "max-pooling gradients"
  EVERYTHING = "everything"


class FunctionKind(enum.Enum):
  """What a hot function spends its time in; the first that applies."""

  RANDOM = "draws random numbers"  # XLA's streams differ from TensorFlow's
  CUDNN_RNN = "calls cuDNN's recurrent kernels"
  CONVOLUTIONS = "convolutions"
  RECURRENT = "loops over time"
  OTHER = "other"


XLA: dict[DeviceKind, dict[FunctionKind, Xla]] = {
  "CPU": {
    FunctionKind.RANDOM: Xla.MAX_POOL_GRADIENTS,
    FunctionKind.CUDNN_RNN: Xla.NOTHING,
    FunctionKind.CONVOLUTIONS: Xla.MAX_POOL_GRADIENTS,
    FunctionKind.RECURRENT: Xla.EVERYTHING,
    FunctionKind.OTHER: Xla.MAX_POOL_GRADIENTS,
  },
  "GPU": {
    FunctionKind.RANDOM: Xla.NOTHING,
    FunctionKind.CUDNN_RNN: Xla.NOTHING,
    FunctionKind.CONVOLUTIONS: Xla.NOTHING,
    FunctionKind.RECURRENT: Xla.EVERYTHING,
    FunctionKind.OTHER: Xla.NOTHING,
  },
}


class Row(NamedTuple):
  """A decision: its value on CPUs and on GPUs, and why."""

  decision: str
  on_cpus: str
  on_gpus: str
  why: str


TABLE = (
  Row(
    "clients in flight on a device",
    "cores / devices",
    "8 for weights up to 4 MB, 4 up to 40 MB, 2 up to 120 MB, else 1; at most what memory and cores allow",
    "the CPU launches a small kernel more slowly than a GPU runs it",
  ),
  Row(
    "logical devices",
    "--devices=cpu:N",
    "--devices=gpu:N, N on each GPU, with a memory limit each; by default one, which grows",
    "a TensorFlow device has one compute stream; limits and growth together are an error",
  ),
  Row("where results are folded", "on the client's device", "on the client's device",
      "an update does not cross the bus; only the partial aggregate of a block does"),
  Row("recurrent layers", "compiled with XLA", "cuDNN's kernel where Keras would use it, else compiled; all "
      "compiled with --gpu_recurrent=xla",
      "a loop over time launches a dozen kernels per time step unless they are fused"),
  Row("XLA: convolutions", "not compiled", "cuDNN; compiled with --gpu_convolutions=xla",
      "XLA's convolutions are slow on CPUs; on GPUs it calls cuDNN itself and fuses the rest"),
  Row("XLA: max-pooling gradients", "compiled", "TensorFlow's kernel",
      "the CPU's kernel is slow; on a GPU, a missing libdevice would break plain EMNIST"),
  Row("XLA: other functions", "not compiled", "not compiled",
      "a compiled step launches half as many kernels, but waits for the GPU to learn its seed and its size"),
  Row("XLA: functions that draw random numbers", "not compiled", "not compiled",
      "XLA's random streams differ from TensorFlow's"),
  Row("TF32", "–", "off; --tf32=on", "10 bits of mantissa: results would differ from a CPU's by 1e-3"),
  Row("deterministic kernels", "always", "--deterministic", "atomic additions are faster and differ by run"),
)  # fmt: skip


class Options(NamedTuple):
  """What the user asks for.

  Attributes:
    devices: As in `--devices`.
    model_bytes: The size of the model's weights.
    max_clients_in_flight: The number of clients that train at the same time; None for the rule.
    tf32: Whether matrix products and convolutions may use TF32.
    deterministic: Whether only deterministic kernels may run.
    convolutions: Who runs convolutions on GPUs: "cudnn" or "xla".
    recurrent: Who runs recurrent layers on GPUs: "cudnn", where Keras would use it, or "xla".
  """

  devices: str = "auto"
  model_bytes: int = 4 * 10**6
  max_clients_in_flight: int | None = None
  tf32: bool = False
  deterministic: bool = False
  convolutions: Convolutions = "cudnn"
  recurrent: Recurrent = "cudnn"


class Decisions(NamedTuple):
  """How to run on a machine.

  Attributes:
    kind: The kind of device that runs clients.
    gpus: The indices of the GPUs to use.
    logical_devices: The number of TensorFlow devices on each.
    memory_limit_bytes: The memory of each logical device; None lets a single one grow.
    slots: The clients in flight on each TensorFlow device.
    fold_on: Where clients' results are added up.
    xla: What XLA compiles of a hot function, by what the function does.
    recurrent: Whether recurrent layers that can use cuDNN's kernel do.
    tf32: Whether TF32 is on.
    deterministic: Whether only deterministic kernels run.
    xla_flags: What to add to the environment variable XLA_FLAGS.
    sentences: What the user should know.
  """

  kind: DeviceKind
  gpus: tuple[int, ...]
  logical_devices: int
  memory_limit_bytes: int | None
  slots: int
  fold_on: str
  xla: dict[FunctionKind, Xla]
  recurrent: Recurrent
  tf32: bool
  deterministic: bool
  xla_flags: str
  sentences: tuple[Sentence, ...]

  @property
  def compiles(self) -> bool:
    """Whether XLA can compile for the devices."""
    return Xla.EVERYTHING in self.xla.values()


def decide(machine: Machine, options: Options = Options()) -> Decisions:  # noqa: B008 (immutable)
  """Returns how to run on `machine`.

  >>> a100 = Gpu("A100", 80 * GIGABYTE, (8, 0))
  >>> found = decide(Machine(cores=16, gpus=(a100, a100), driver=(535, 54, 3)))
  >>> found.kind, found.gpus, found.logical_devices, found.slots
  ('GPU', (0, 1), 1, 8)
  """
  usable, sentences = requirements.usable_gpus(machine)
  wants_gpus = not options.devices.startswith("cpu")
  if not wants_gpus or not usable:
    if options.devices.startswith("gpu"):
      sentences += (
        requirements.problem(f"--devices={options.devices} needs a GPU; use cpu or auto."),
      )
    slots = options.max_clients_in_flight or machine.cores
    count = int(options.devices.partition(":")[2] or 1) if not wants_gpus else 1
    return Decisions(
      "CPU", (), count, None, max(1, slots // count), "the client's device", XLA["CPU"], "xla", False,
      options.deterministic, "", sentences if wants_gpus else (),
    )  # fmt: skip
  per_gpu = int(options.devices.partition(":")[2] or 1)
  smallest = min(machine.gpus[i].memory_bytes for i in usable)
  devices = per_gpu * len(usable)
  if options.max_clients_in_flight is not None:
    slots = max(1, options.max_clients_in_flight // devices)
  else:
    slots = slots_per_gpu(options.model_bytes, smallest, machine.cores // len(usable)) // per_gpu
  xla, xla_flags, about_xla = _xla(machine, options)
  return Decisions(
    kind="GPU",
    gpus=usable,
    logical_devices=per_gpu,
    memory_limit_bytes=None if per_gpu == 1 else memory_limit(smallest, per_gpu),
    slots=max(1, slots),
    fold_on="the client's device",
    xla=xla,
    recurrent=options.recurrent,
    tf32=options.tf32,
    deterministic=options.deterministic,
    xla_flags=xla_flags,
    sentences=sentences + requirements.about_libraries(machine) + about_xla,
  )


def slots_per_gpu(model_bytes: int, memory_bytes: int, cores: int) -> int:
  """Returns the number of clients in flight on one GPU: by the model's size, memory, and cores.

  Args:
    model_bytes: The size of the weights.
    memory_bytes: The memory of the GPU.
    cores: The CPU cores for this GPU; each client in flight needs a thread that launches kernels.

  >>> slots_per_gpu(4 * 7850, 8 * GIGABYTE, cores=8)
  8
  >>> slots_per_gpu(4 * 86_000_000, 80 * GIGABYTE, cores=8)
  1
  """
  by_size = next((slots for largest, slots in SLOTS if model_bytes <= largest), 1)
  each = COPIES_OF_THE_MODEL * model_bytes + ACTIVATIONS
  by_memory = max(0, memory_bytes - RESERVED) // each
  return max(1, min(by_size, by_memory, cores))


def xla_table(device: DeviceKind, convolutions: Convolutions = "cudnn") -> dict[FunctionKind, Xla]:
  """Returns what XLA compiles on a kind of device, by what a function does."""
  if device == "GPU" and convolutions == "xla":
    return {**XLA["GPU"], FunctionKind.CONVOLUTIONS: Xla.EVERYTHING}
  return XLA[device]


def memory_limit(memory_bytes: int, logical_devices: int) -> int:
  """Returns the memory limit of each of several logical devices on a GPU, in bytes.

  Raises:
    ValueError: There would be less than a quarter of a gigabyte for each.
  """
  limit = (memory_bytes - RESERVED) // logical_devices
  if limit < ACTIVATIONS:
    most = max(1, (memory_bytes - RESERVED) // ACTIVATIONS)
    raise ValueError(
      f"Expected at most {most} logical devices on a GPU with {memory_bytes / GIGABYTE:.0f} GB, found "
      f"{logical_devices}; use --devices=gpu:{most} or fewer."
    )
  return limit


def _xla(
  machine: Machine, options: Options
) -> tuple[dict[FunctionKind, Xla], str, tuple[Sentence, ...]]:
  """Returns what XLA compiles on GPUs, the flags it needs, and what is missing."""
  if machine.xla_root is None or not machine.ptxas:
    missing = "libdevice" if machine.xla_root is None else "ptxas"
    text = (
      f"XLA finds no {missing}, so nothing is compiled on GPUs, and recurrent models are slow: install "
      "nvidia-cuda-nvcc-cu11 with `uv sync --extra gpu`."
    )
    return dict.fromkeys(FunctionKind, Xla.NOTHING), "", (requirements.problem(text),)
  folder, is_searched = machine.xla_root
  flags = "" if is_searched else f"--xla_gpu_cuda_data_dir={folder}"
  return xla_table("GPU", options.convolutions), flags, ()
