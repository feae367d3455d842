"""What TensorFlow 2.14.1 needs of a machine with GPUs: the driver, the cards, CUDA's libraries.

It imports no TensorFlow. `gpu_machine.describe` describes the machine at hand; `gpu_decisions` decides.
"""

import dataclasses
from typing import NamedTuple

GIGABYTE = 2**30
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


class Sentence(NamedTuple):
  """Something that the user should know; a problem means that GPUs are not used, or that a run would fail."""

  is_problem: bool
  text: str


def usable_gpus(machine: Machine) -> tuple[tuple[int, ...], tuple[Sentence, ...]]:
  """Returns the GPUs that TensorFlow 2.14.1 can use, and sentences about the others."""
  if machine.driver is None:
    return (), ()
  if machine.driver < LEAST_DRIVER:
    return (), (
      problem(
        f"The NVIDIA driver is {_dotted(machine.driver)}; CUDA 11.8 needs {_dotted(LEAST_DRIVER)} or newer, "
        f"best {_dotted(FULL_DRIVER)}: update the driver, or use --devices=cpu."
      ),
    )
  usable, sentences = [], []
  for i, gpu in enumerate(machine.gpus):
    what = f"GPU {i} ({gpu.name}) has compute capability {_dotted(gpu.capability)}"
    if gpu.capability > LAST_CAPABILITY:
      sentences.append(
        problem(
          f"{what}; CUDA 11.8, which TensorFlow 2.14.1 is built with, ends at {_dotted(LAST_CAPABILITY)}, so "
          "this card cannot be used: take an older one (Hopper, Ampere, Turing, Volta), or --devices=cpu."
        )
      )
    elif gpu.capability < LEAST_CAPABILITY:
      sentences.append(
        problem(f"{what}; TensorFlow 2.14.1 needs {_dotted(LEAST_CAPABILITY)} or more.")
      )
    elif gpu.capability >= LAST_CAPABILITY and machine.driver < FULL_DRIVER:
      sentences.append(
        problem(
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


def about_libraries(machine: Machine) -> tuple[Sentence, ...]:
  """Returns sentences about CUDA libraries that are missing, or hidden by others."""
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
      problem(
        f"LD_LIBRARY_PATH contains {folder}, so its {file} is loaded instead of pip's, which TensorFlow was "
        "built for: run `unset LD_LIBRARY_PATH`, or `module unload` what set it."
      )
    )
  if machine.nvrtc is None:
    sentences.append(
      problem("cuDNN needs NVRTC, found none: install the extra with `uv sync --extra gpu`.")
    )
  elif not machine.nvrtc_link:
    sentences.append(
      problem(
        "cuDNN opens libnvrtc.so, and pip installs it as libnvrtc.so.11.2 only: run "
        f"`ln -s {machine.nvrtc}/libnvrtc.so.11.2 {machine.nvrtc}/../../cudnn/lib/libnvrtc.so`."
      )
    )
  return tuple(sentences)


def problem(text: str) -> Sentence:
  """Returns a sentence that is a problem."""
  return Sentence(True, text)


def _dotted(numbers: tuple[int, ...]) -> str:
  if len(numbers) == 3:  # a driver's version: 450.80.02
    return f"{numbers[0]}.{numbers[1]}.{numbers[2]:02d}"
  return ".".join(map(str, numbers))
