"""Momentum and drift correction in federated learning, as TensorFlow Federated processes.

    import tff_momentum as tfm
    algorithm = tfm.algorithms.ghbm(client_learning_rate=0.1, tau=10)
    process = tfm.build_process(algorithm, model)

Importing the package is quick: TensorFlow is loaded with the first name that needs it.
"""

import importlib
import importlib.metadata
from typing import Any

from tff_momentum.runtime import compat

__version__ = "0.1.0"
TFF_VERSION = "0.87.0"

_HOME = {
  "Algorithm": "algorithm",
  "Exchange": "algorithm",
  "RoundInfo": "algorithm",
  "Update": "algorithm",
  "Model": "models.model",
  "LocalWork": "client",
  "as_learning_process": "processes.learning_process",
  "build_process": "processes.process",
  "from_keras": "models.keras",
  "run": "simulation.loop",
  "set_execution_context": "runtime",
}
_MODULES = ("algorithms", "optimizers", "schedules", "trees", "simulation", "runtime")


def _check_tff_version() -> None:
  try:
    found = importlib.metadata.version("tensorflow-federated")
  except importlib.metadata.PackageNotFoundError:
    found = "none"
  if found != TFF_VERSION:
    raise ImportError(
      f"tff_momentum needs tensorflow-federated {TFF_VERSION}; found {found}. Install the versions that "
      "work together with `pip install --no-deps -r requirements.lock`, or with `uv sync`."
    )


def __getattr__(name: str) -> Any:
  if name in _HOME:
    return getattr(importlib.import_module(f"{__name__}.{_HOME[name]}"), name)
  if name in _MODULES:
    return importlib.import_module(f"{__name__}.{name}")
  raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
  return [*globals(), *_HOME, *_MODULES]


_check_tff_version()
compat.load_when_used("tensorflow_probability")
