"""Momentum and drift correction in federated learning, as TensorFlow Federated processes.

    import tff_momentum as tfm

    algorithm = tfm.algorithms.ghbm(client_learning_rate=0.1, tau=10)
    process = tfm.build_process(algorithm, model)

Importing the package is fast: TensorFlow is imported with the first name that needs it.
"""

import importlib
import importlib.metadata
from typing import TYPE_CHECKING, Any

from tff_momentum import _moved
from tff_momentum.runtime import compat

if TYPE_CHECKING:
  from tff_momentum import (
    algorithms,
    diagnostics,
    models,
    optimizers,
    processes,
    registry,
    runtime,
    schedules,
    simulation,
    transforms,
    trees,
  )
  from tff_momentum.algorithm import Algorithm, Exchange, RoundInfo, Update
  from tff_momentum.client import Client, LocalWork
  from tff_momentum.models.keras import from_keras
  from tff_momentum.models.model import Model
  from tff_momentum.processes.client_input import ClientInput
  from tff_momentum.processes.learning_process import as_learning_process
  from tff_momentum.processes.process import (
    FederatedProcess,
    ProcessState,
    RoundOutput,
    build_process,
  )
  from tff_momentum.runtime import ClientBatches, set_execution_context
  from tff_momentum.simulation.loop import run
  from tff_momentum.transforms.asynchronous import asynchronous
  from tff_momentum.transforms.compression import Quantiser, compressed, qsgd, quantiser
  from tff_momentum.transforms.extrapolation import extrapolated
  from tff_momentum.transforms.relaxed_start import relaxed

__version__ = "0.1.0"
TFF_VERSION = "0.87.0"

__all__ = [
  "Algorithm",
  "Client",
  "ClientBatches",
  "ClientInput",
  "Exchange",
  "FederatedProcess",
  "LocalWork",
  "Model",
  "ProcessState",
  "Quantiser",
  "RoundInfo",
  "RoundOutput",
  "Update",
  "algorithms",
  "as_learning_process",
  "asynchronous",
  "build_process",
  "compressed",
  "diagnostics",
  "extrapolated",
  "from_keras",
  "models",
  "optimizers",
  "processes",
  "qsgd",
  "quantiser",
  "registry",
  "relaxed",
  "run",
  "runtime",
  "schedules",
  "set_execution_context",
  "simulation",
  "transforms",
  "trees",
]

# Public name -> the module that defines it. Every other name in `__all__` is a module of the package.
_DEFINED_IN = {
  "Algorithm": "algorithm",
  "Client": "client",
  "ClientBatches": "runtime",
  "ClientInput": "processes.client_input",
  "Exchange": "algorithm",
  "FederatedProcess": "processes.process",
  "LocalWork": "client",
  "Model": "models.model",
  "ProcessState": "processes.process",
  "Quantiser": "transforms.compression",
  "RoundInfo": "algorithm",
  "RoundOutput": "processes.process",
  "Update": "algorithm",
  "as_learning_process": "processes.learning_process",
  "asynchronous": "transforms.asynchronous",
  "build_process": "processes.process",
  "compressed": "transforms.compression",
  "extrapolated": "transforms.extrapolation",
  "from_keras": "models.keras",
  "qsgd": "transforms.compression",
  "quantiser": "transforms.compression",
  "relaxed": "transforms.relaxed_start",
  "run": "simulation.loop",
  "set_execution_context": "runtime",
}


def _check_tff_version() -> None:
  try:
    found = importlib.metadata.version("tensorflow-federated")
  except importlib.metadata.PackageNotFoundError:
    found = "none"
  if found != TFF_VERSION:
    raise ImportError(
      f"tff_momentum needs tensorflow-federated {TFF_VERSION}; found {found}. Install it with `pip install "
      f"--no-deps tensorflow-federated=={TFF_VERSION}`; everything that it needs comes with tff_momentum."
    )


def __getattr__(name: str) -> Any:
  if name in _DEFINED_IN:
    return getattr(importlib.import_module(f"{__name__}.{_DEFINED_IN[name]}"), name)
  if name in __all__ or _moved.is_moved(f"{__name__}.{name}"):
    return importlib.import_module(f"{__name__}.{name}")
  raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
  return sorted({*globals(), *__all__})


_check_tff_version()
_moved.install()
compat.load_when_used("tensorflow_probability")
compat.end_default_worker_at_exit()
