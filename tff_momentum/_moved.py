"""Old module names: importing one still works and warns with the new name.

Only modules that moved or were renamed are listed. The finder is the last one in `sys.meta_path`, so Python
asks it only about names that no file has; it costs nothing until such a name is imported.
"""

import importlib
import importlib.abc
import importlib.machinery
import sys
import types
import warnings
from collections.abc import Sequence
from typing import Any

_PACKAGE = "tff_momentum"

# Old module -> the modules that its contents are in now; the first is the one the warning names.
MODULES: dict[str, tuple[str, ...]] = {
  "aggregation": ("processes.aggregators",),
  "asynchronous": ("transforms.asynchronous",),
  "calls": ("call_syntax",),
  "catalogue": ("registry",),
  "checks": ("validation",),
  "exchanges": ("processes.exchange",),
  "gradients": ("models.model", "processes.functional_model"),
  "keras_model": ("models.keras",),
  "learning_process": ("processes.learning_process",),
  "local": ("client",),
  "postponed": ("runtime.compat",),
  "process": ("processes.process",),
  "quantisation": ("transforms.compression",),
  "sizes": ("wire_bytes",),
  "algorithms.fedgm_maps": tuple(
    f"algorithms.{n}" for n in ("fedsnv", "fedpid", "fedasgd", "fedtm")
  ),
  "algorithms.fedgm_stages": ("algorithms.fedgm_staged",),
  "diagnostics.layers": ("diagnostics.flops_layers",),
  "diagnostics.lockstep": ("diagnostics.drift", "diagnostics.cohort_steps"),
  "diagnostics.updates": ("diagnostics.layer_updates", "diagnostics.update_variance"),
  "diagnostics.walk": ("diagnostics.local_steps",),
  "runtime.definitions": ("runtime.rewrite.function_defs",),
  "runtime.eager_tensors": ("runtime.compat",),
  "runtime.evaluate": ("runtime.trace_blocks",),
  "runtime.graphs": ("runtime.rewrite.prepared_graphs", "runtime.rewrite.options"),
  "runtime.loops": ("runtime.rewrite.dataset_reduce",),
  "runtime.pooling": ("runtime.rewrite.max_pool_gradients",),
  "runtime.ray_actor": ("runtime.ray.actor",),
  "runtime.ray_cluster": ("runtime.ray.cluster",),
  "runtime.ray_executor": ("runtime.ray.executor",),
  "runtime.ray_wire": ("runtime.ray.wire",),
  "runtime.recurrent": ("runtime.rewrite.recurrent_loops",),
  "runtime.turns": ("runtime.rewrite.loop_outputs",),
  "runtime.worker": ("runtime.tff_worker",),
  "runtime.xla": ("runtime.rewrite.xla_choice", "runtime.rewrite.xla_calls"),
  "simulation.client_states": ("simulation.client_store",),
  "simulation.laws": ("simulation.distributions",),
  "simulation.reading": ("simulation.prefetch",),
  "simulation.versions": ("simulation.lmdb_versions",),
}

# Old module -> old name -> new name, for what was renamed on the way.
NAMES: dict[str, dict[str, str]] = {
  "catalogue": {"Entry": "AlgorithmInfo"},
  "diagnostics.lockstep": {
    "LockStep": "ClientDrift",
    "Stepped": "StepResult",
    "Walked": "DriftResult",
  },
  "diagnostics.updates": {"moved": "update", "variance": "update_variance"},
  "diagnostics.walk": {"Batches": "StepBatches", "Walk": "StepsCall"},
  "exchanges": {"Stage": "CompiledExchange", "trip": "run_exchange"},
  "postponed": {"postpone": "load_when_used"},
  "runtime.eager_tensors": {"stop_leak": "stop_eager_tensor_leak"},
  "simulation.client_states": {"ClientStates": "ClientStore"},
  "simulation.laws": {"Law": "Distribution", "read": "parse", "read_whole": "parse_integers"},
  "simulation.reading": {"Ahead": "Prefetcher"},
  "simulation.versions": {"Versions": "VersionedRecords"},
}


class _MovedModule(types.ModuleType):
  """Stands in for an old module and reads every name from the new ones."""

  def __getattr__(self, name: str) -> Any:
    if name.startswith("__"):
      raise AttributeError(name)
    old = self.__name__.removeprefix(f"{_PACKAGE}.")
    new = NAMES.get(old, {}).get(name, name)
    for module in MODULES[old]:
      found = importlib.import_module(f"{_PACKAGE}.{module}")
      if hasattr(found, new):
        return getattr(found, new)
    raise AttributeError(f"module {self.__name__!r} has no attribute {name!r}")

  def __call__(self, *args: Any, **kwargs: Any) -> Any:
    # `tfm.asynchronous` is a function today. Importing the old module of that name rebinds the package's
    # attribute to this stand-in, which must therefore work as the function too.
    return getattr(self, self.__name__.rpartition(".")[2])(*args, **kwargs)


class _MovedFinder(importlib.abc.MetaPathFinder, importlib.abc.Loader):
  def find_spec(
    self, fullname: str, path: Sequence[str] | None, target: types.ModuleType | None = None
  ) -> importlib.machinery.ModuleSpec | None:
    return importlib.machinery.ModuleSpec(fullname, self) if is_moved(fullname) else None

  def create_module(self, spec: importlib.machinery.ModuleSpec) -> types.ModuleType:
    return _MovedModule(spec.name)

  def exec_module(self, module: types.ModuleType) -> None:
    new, *_ = MODULES[module.__name__.removeprefix(f"{_PACKAGE}.")]
    warnings.warn(
      f"{module.__name__} moved to {_PACKAGE}.{new}; import it from there.",
      DeprecationWarning,
      stacklevel=2,
    )


def is_moved(fullname: str) -> bool:
  """Whether this is the old name of a module that moved."""
  package, _, old = fullname.partition(".")
  return package == _PACKAGE and old in MODULES


def install() -> None:
  """Makes the old names importable; calling it again does nothing."""
  if not any(isinstance(finder, _MovedFinder) for finder in sys.meta_path):
    sys.meta_path.append(_MovedFinder())
