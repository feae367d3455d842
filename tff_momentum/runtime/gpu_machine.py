"""Describes the machine at hand for `gpu_decisions.decide`, without starting TensorFlow.

The driver is asked through `nvidia-smi`. The CUDA libraries are looked for where TensorFlow 2.14.1 looks: in
the folders of LD_LIBRARY_PATH, and then in pip's package `nvidia` beside TensorFlow (its RUNPATH).
"""

import functools
import importlib.util
import os
import pathlib
import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence

from tff_momentum.runtime.gpu_decisions import LIBRARIES, Gpu, Machine

# Prints a line for each GPU: its name, its memory in MiB, its compute capability, the driver's version.
QUERY = ("nvidia-smi", "--query-gpu=name,memory.total,compute_cap,driver_version",
         "--format=csv,noheader,nounits")  # fmt: skip
# Where else XLA looks for libdevice and ptxas.
_SYSTEM_ROOT = "/usr/local/cuda"


def describe(
  environment: Mapping[str, str] | None = None,
  packages: Sequence[str | os.PathLike[str]] | None = None,
  answer: str | None = None,
  system_root: str = _SYSTEM_ROOT,
) -> Machine:
  """Returns the description of this machine.

  Args:
    environment: The environment variables; default: those of this process.
    packages: The folders that pip installs into, that of TensorFlow first; default: where TensorFlow and the
      package `nvidia` are.
    answer: What `QUERY` prints; default: it is run, if there is an `nvidia-smi`.
    system_root: Where the system's CUDA is installed.

  >>> describe({}, [], "Tesla V100, 16160, 7.0, 470.57.02").gpus[0].capability
  (7, 0)
  """
  environment = os.environ if environment is None else environment
  roots = [pathlib.Path(p) for p in (_package_folders() if packages is None else packages)]
  gpus, driver = parse(_ask_driver() if answer is None else answer)
  nvidia = [root / "nvidia" for root in roots]
  libraries = frozenset(
    name for name, file in LIBRARIES.items() if _first(nvidia, f"{name}/lib/{file}")
  )
  searched = _library_path(environment)
  shadowing = [
    (file, str(folder))
    for name, file in LIBRARIES.items()
    if (folder := _first(searched, file)) and name in libraries
  ]
  nvrtc = _first(nvidia, "cuda_nvrtc/lib/libnvrtc.so.11.2")
  link_places = [*searched, *(root / "cudnn/lib" for root in nvidia)]
  return Machine(
    cores=len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1,
    gpus=gpus,
    driver=driver,
    libraries=libraries,
    shadowing=tuple(shadowing),
    xla_root=_xla_root(environment, nvidia, pathlib.Path(system_root)),
    ptxas=_has_ptxas(environment, nvidia, pathlib.Path(system_root)),
    nvrtc=str(nvrtc / "cuda_nvrtc/lib") if nvrtc else _folder_of_nvrtc(searched),
    nvrtc_link=_first(link_places, "libnvrtc.so") is not None,
  )


def parse(answer: str | None) -> tuple[tuple[Gpu, ...], tuple[int, ...] | None]:
  """Returns the GPUs and the driver's version in what `QUERY` printed; (), None if there is no driver.

  >>> parse("NVIDIA A100-SXM4-80GB, 81920, 8.0, 535.54.03")[1]
  (535, 54, 3)
  """
  gpus, driver = [], None
  for line in (answer or "").splitlines():
    parts = [part.strip() for part in line.split(",")]
    if len(parts) == 4 and re.fullmatch(r"\d+\.\d+", parts[2]):
      major, minor = map(int, parts[2].split("."))
      gpus.append(Gpu(parts[0], int(float(parts[1])) * 2**20, (major, minor)))
      driver = tuple(int(number) for number in re.findall(r"\d+", parts[3]))
  return tuple(gpus), driver


@functools.cache
def _ask_driver() -> str | None:
  if not shutil.which(QUERY[0]):
    return None
  try:
    done = subprocess.run(QUERY, capture_output=True, text=True, timeout=30, check=False)
  except (OSError, subprocess.TimeoutExpired):
    return None
  return done.stdout if done.returncode == 0 else None


def _package_folders() -> list[pathlib.Path]:
  found: list[pathlib.Path] = []
  for name in ("tensorflow", "nvidia"):
    spec = importlib.util.find_spec(name)
    for place in (spec.submodule_search_locations or ()) if spec else ():
      if (folder := pathlib.Path(place).parent) not in found:
        found.append(folder)
  return found


def _library_path(environment: Mapping[str, str]) -> list[pathlib.Path]:
  return [pathlib.Path(p) for p in environment.get("LD_LIBRARY_PATH", "").split(os.pathsep) if p]


def _first(folders: Sequence[pathlib.Path], file: str) -> pathlib.Path | None:
  """Returns the first folder that contains a file."""
  return next((folder for folder in folders if (folder / file).exists()), None)


def _folder_of_nvrtc(searched: Sequence[pathlib.Path]) -> str | None:
  folder = _first(searched, "libnvrtc.so.11.2") or _first(searched, "libnvrtc.so")
  return None if folder is None else str(folder)


def _xla_root(
  environment: Mapping[str, str], nvidia: Sequence[pathlib.Path], system_root: pathlib.Path
) -> tuple[str, bool] | None:
  """Returns the folder in which XLA can find libdevice, and whether XLA looks there by itself.

  By itself it looks into pip's package beside TensorFlow and into the system's folder.
  """
  beside_tensorflow = [nvidia[0] / "cuda_nvcc"] if nvidia else []
  elsewhere = [root / "cuda_nvcc" for root in nvidia[1:]]
  for name in ("CUDA_HOME", "CUDA_PATH", "CUDA_ROOT"):  # what clusters' modules set
    elsewhere += [pathlib.Path(environment[name])] if environment.get(name) else []
  for folders, is_searched in (([*beside_tensorflow, system_root], True), (elsewhere, False)):
    folder = _first(folders, "nvvm/libdevice/libdevice.10.bc")
    if folder is not None:
      return str(folder), is_searched
  return None


def _has_ptxas(
  environment: Mapping[str, str], nvidia: Sequence[pathlib.Path], system_root: pathlib.Path
) -> bool:
  root = _xla_root(environment, nvidia, system_root)
  folders = [pathlib.Path(p) for p in environment.get("PATH", "").split(os.pathsep) if p]
  if root is not None:
    folders.append(pathlib.Path(root[0]) / "bin")
  return _first(folders, "ptxas") is not None
