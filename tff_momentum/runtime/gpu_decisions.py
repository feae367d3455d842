"""All decisions about GPUs: a function from the description of a machine to decisions and sentences.

`decide` is a pure function and imports no TensorFlow, so every rule is tested on machines that nobody has
here. `gpu_machine.describe` describes the machine at hand; `docs/gpu.md` shows `TABLE`.
"""

import dataclasses
import enum
from typing import Literal, NamedTuple

DeviceKind = Literal["CPU", "GPU"]
Convolutions = Literal["cudnn", "xla"]

# What TensorFlow 2.14.1's wheel is built for. Its own kernels exist for 3.5 to 8.x; a card of capability 9.0
# compiles them from PTX when a program starts.
LEAST_CAPABILITY, LAST_CAPABILITY = (3, 5), (9, 0)
# NVIDIA's table of driver versions: CUDA 11.x runs on drivers since 450.80.02, without compiling PTX; CUDA
# 11.8 itself, with PTX, since 520.61.05.
LEAST_DRIVER, FULL_DRIVER = (450, 80, 2), (520, 61, 5)
# The libraries of the extra `gpu` by the folder of pip's package `nvidia`, with the file that is opened.
LIBRARIES = {
  "cublas": "libcublas.so.11",
  "cuda_cupti": "libcupti.so.11.8",
  "cuda_runtime": "libcudart.so.11.0",
  "cudnn": "libcudnn.so.8",
  "cufft": "libcufft.so.10",
  "curand": "libcurand.so.10",
  "cusolver": "libcusolver.so.11",
  "cusparse": "libcusparse.so.11",
}
GIGABYTE = 2**30
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
  Row("XLA: recurrent layers", "compiled", "cuDNN's kernel where the graph has it, else compiled",
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


class Gpu(NamedTuple):
  """A GPU as its driver describes it."""

  name: str
  memory_bytes: int
  capability: tuple[int, int]


@dataclasses.dataclass(frozen=True)
class Machine:
  """What decisions depend on.

  Attributes:
    cores: The CPU cores that this process may use.
    gpus: The GPUs that the driver lists.
    driver: The driver's version; None if there is no driver.
    libraries: The names among `LIBRARIES` that pip installed.
    shadowing: Library file -> the folder of LD_LIBRARY_PATH in which it is found before pip's.
    xla_root: The folder with `nvvm/libdevice`, and whether XLA looks there by itself; None if there is none.
    ptxas: Whether XLA finds the program ptxas.
    nvrtc: The folder with NVRTC; None if it is not installed.
    nvrtc_link: Whether cuDNN finds it under the name that it opens, `libnvrtc.so`.
  """

  cores: int = 1
  gpus: tuple[Gpu, ...] = ()
  driver: tuple[int, ...] | None = None
  libraries: frozenset[str] = frozenset()
  shadowing: tuple[tuple[str, str], ...] = ()
  xla_root: tuple[str, bool] | None = None
  ptxas: bool = False
  nvrtc: str | None = None
  nvrtc_link: bool = False


class Options(NamedTuple):
  """What the user asks for.

  Attributes:
    devices: As in `--devices`.
    model_bytes: The size of the model's weights.
    max_clients_in_flight: The number of clients that train at the same time; None for the rule.
    tf32: Whether matrix products and convolutions may use TF32.
    deterministic: Whether only deterministic kernels may run.
    convolutions: Who runs convolutions on GPUs: "cudnn" or "xla".
  """

  devices: str = "auto"
  model_bytes: int = 4 * 10**6
  max_clients_in_flight: int | None = None
  tf32: bool = False
  deterministic: bool = False
  convolutions: Convolutions = "cudnn"


class Sentence(NamedTuple):
  """Something that the user should know; a problem means that GPUs are not used, or that a run would fail."""

  is_problem: bool
  text: str


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
  usable, sentences = _usable_gpus(machine)
  wants_gpus = not options.devices.startswith("cpu")
  if not wants_gpus or not usable:
    if options.devices.startswith("gpu"):
      sentences += (_problem(f"--devices={options.devices} needs a GPU; use cpu or auto."),)
    slots = options.max_clients_in_flight or machine.cores
    count = int(options.devices.partition(":")[2] or 1) if not wants_gpus else 1
    return Decisions(
      "CPU", (), count, None, max(1, slots // count), "the client's device", XLA["CPU"], False,
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
    tf32=options.tf32,
    deterministic=options.deterministic,
    xla_flags=xla_flags,
    sentences=sentences + _about_libraries(machine) + about_xla,
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


def _usable_gpus(machine: Machine) -> tuple[tuple[int, ...], tuple[Sentence, ...]]:
  """Returns the GPUs that TensorFlow 2.14.1 can use, and sentences about the others."""
  if machine.driver is None:
    return (), ()
  if machine.driver < LEAST_DRIVER:
    return (), (
      _problem(
        f"The NVIDIA driver is {_dotted(machine.driver)}; CUDA 11.8 needs {_dotted(LEAST_DRIVER)} or newer, "
        f"best {_dotted(FULL_DRIVER)}: update the driver, or use --devices=cpu."
      ),
    )
  usable, sentences = [], []
  for i, gpu in enumerate(machine.gpus):
    what = f"GPU {i} ({gpu.name}) has compute capability {_dotted(gpu.capability)}"
    if gpu.capability > LAST_CAPABILITY:
      sentences.append(
        _problem(
          f"{what}; CUDA 11.8, which TensorFlow 2.14.1 is built with, ends at {_dotted(LAST_CAPABILITY)}, so "
          "this card cannot be used: take an older one (Hopper, Ampere, Turing, Volta), or --devices=cpu."
        )
      )
    elif gpu.capability < LEAST_CAPABILITY:
      sentences.append(
        _problem(f"{what}; TensorFlow 2.14.1 needs {_dotted(LEAST_CAPABILITY)} or more.")
      )
    elif gpu.capability >= LAST_CAPABILITY and machine.driver < FULL_DRIVER:
      sentences.append(
        _problem(
          f"{what}, for which the driver compiles TensorFlow's kernels; that needs driver "
          f"{_dotted(FULL_DRIVER)} or newer, found {_dotted(machine.driver)}: update the driver."
        )
      )
    else:
      usable.append(i)
      sentences.append(Sentence(False, f"{what} and {gpu.memory_bytes / GIGABYTE:.0f} GB."))
  if usable and machine.driver < FULL_DRIVER:
    sentences.append(
      Sentence(
        False,
        f"The NVIDIA driver is {_dotted(machine.driver)}: it runs CUDA 11.8 without compiling PTX; "
        f"{_dotted(FULL_DRIVER)} or newer is better.",
      )
    )
  return tuple(usable), tuple(sentences)


def _about_libraries(machine: Machine) -> tuple[Sentence, ...]:
  sentences = []
  absent = [name for name in LIBRARIES if name not in machine.libraries]
  if absent:
    sentences.append(
      Sentence(
        False,
        f"pip's CUDA libraries lack {', '.join(absent)}: install the extra with `uv sync --extra gpu`, "
        "unless the system has CUDA 11.8 and cuDNN 8.7.",
      )
    )
  for file, folder in machine.shadowing:
    sentences.append(
      _problem(
        f"LD_LIBRARY_PATH contains {folder}, so its {file} is loaded instead of pip's, which TensorFlow was "
        "built for: run `unset LD_LIBRARY_PATH`, or `module unload` what set it."
      )
    )
  if machine.nvrtc is None:
    sentences.append(
      _problem("cuDNN needs NVRTC, found none: install the extra with `uv sync --extra gpu`.")
    )
  elif not machine.nvrtc_link:
    sentences.append(
      _problem(
        "cuDNN opens libnvrtc.so, and pip installs it as libnvrtc.so.11.2 only: run "
        f"`ln -s {machine.nvrtc}/libnvrtc.so.11.2 {machine.nvrtc}/../../cudnn/lib/libnvrtc.so`."
      )
    )
  return tuple(sentences)


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
    return dict.fromkeys(FunctionKind, Xla.NOTHING), "", (_problem(text),)
  folder, is_searched = machine.xla_root
  flags = "" if is_searched else f"--xla_gpu_cuda_data_dir={folder}"
  return xla_table("GPU", options.convolutions), flags, ()


def _problem(text: str) -> Sentence:
  return Sentence(True, text)


def _dotted(numbers: tuple[int, ...]) -> str:
  if len(numbers) == 3:  # a driver's version: 450.80.02
    return f"{numbers[0]}.{numbers[1]}.{numbers[2]:02d}"
  return ".".join(map(str, numbers))
