"""`--scale`: a quick trial of a large experiment, with a fraction of its rounds, cohort and test data.

The numbers of a preset and of the task's defaults are reduced; numbers on the command line are not. The split
of the data over clients stays, so that each client holds what it holds in the full experiment.
"""

import math
from collections.abc import Iterable

from experiments.cli.errors import UserError

# The smallest values: averaging needs two clients, and a thousand test examples measure an accuracy to within
# one or two percentage points.
AT_LEAST = {"total_rounds": 1, "clients_per_round": 2, "eval_examples": 1000}


def shrink(name: str, value: int, factor: float | None) -> int:
  """A number of rounds, clients or test examples times the factor; None is full size.

  >>> shrink("total_rounds", 1000, 0.05), shrink("clients_per_round", 50, 0.001)
  (50, 2)
  """
  if factor is None:
    return value
  return max(min(AT_LEAST[name], value), round(value * check(factor)))


def shrink_flags(flags: Iterable[str], factor: float | None) -> list[str]:
  """Flags as `--name=value`, with their rounds, cohort and test examples reduced."""
  return [_shrink_flag(flag, factor) for flag in flags]


def check(factor: float) -> float:
  """Returns a valid factor; raises `UserError` for any other."""
  if not (math.isfinite(factor) and 0 < factor <= 1):
    raise UserError(f"--scale must be above 0 and at most 1, as in --scale=0.05; found {factor}.")
  return factor


def _shrink_flag(flag: str, factor: float | None) -> str:
  name, _, value = flag.removeprefix("--").partition("=")
  return f"--{name}={shrink(name, int(value), factor)}" if name in AT_LEAST else flag
