"""A kit that tests algorithms of your own as this library tests its own.

    from tff_momentum import testing

    print(testing.check_algorithm(my_builder, client_learning_rate=0.05))
    testing.compare_with_oracle(my_builder, my_numpy_function, client_learning_rate=0.1)

With pytest, which finds the plugin of this package by itself, each check is a test:

    def test_my_algorithm(algorithm_check):
      algorithm_check(my_builder, client_learning_rate=0.05)

Importing this package imports neither TensorFlow nor pytest.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
  from tff_momentum.testing.comparison import compare_with_oracle
  from tff_momentum.testing.oracle import OracleProblem, OracleTrace
  from tff_momentum.testing.outcomes import CheckReport, ContractError, SkippedCheck
  from tff_momentum.testing.suite import check_algorithm, run_check

__all__ = [
  "CHECKS",
  "CheckReport",
  "ContractError",
  "OracleProblem",
  "OracleTrace",
  "SkippedCheck",
  "check_algorithm",
  "compare_with_oracle",
  "run_check",
]

# The names of the checks, in the order in which they run; `contract.py` has their functions.
CHECKS = (
  "types",
  "seeds",
  "resume",
  "empty_clients",
  "empty_round",
  "dropouts",
  "non_finite",
  "bytes",
  "loss",
  "parallel_clients",
  "tff_worker",
  "ray",
  "gpu_audit",
)

_DEFINED_IN = {
  "CheckReport": "outcomes",
  "ContractError": "outcomes",
  "OracleProblem": "oracle",
  "OracleTrace": "oracle",
  "SkippedCheck": "outcomes",
  "check_algorithm": "suite",
  "compare_with_oracle": "comparison",
  "run_check": "suite",
}


def __getattr__(name: str) -> Any:
  if name in _DEFINED_IN:
    return getattr(importlib.import_module(f"{__name__}.{_DEFINED_IN[name]}"), name)
  raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
  return sorted({*globals(), *__all__})
