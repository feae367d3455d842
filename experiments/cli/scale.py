"""A try-out of a large experiment: `--scale=0.05` is a twentieth of its rounds, cohort and test data.

What a preset or a task's defaults say is shrunk; a number typed on the command line stands as typed. The
split of the data over clients stays, so that each client holds what it holds in the full experiment.
"""

import math
from collections.abc import Iterable

from experiments.cli.errors import UserError

# The least that is left of each: two clients are the fewest that make averaging mean something, and a
# thousand test examples tell an accuracy to a percent or two.
AT_LEAST = {"total_rounds": 1, "clients_per_round": 2, "eval_examples": 1000}


def shrink(name: str, value: int, factor: float | None) -> int:
  """A number of rounds, clients or test examples, as the scaled experiment has it; None is full size."""
  if factor is None:
    return value
  return max(min(AT_LEAST[name], value), round(value * check(factor)))


def shrink_flags(flags: Iterable[str], factor: float | None) -> list[str]:
  """Flags `--name=value`, with the rounds, the cohort and the test among them shrunk."""
  return [_shrink_flag(flag, factor) for flag in flags]


def check(factor: float) -> float:
  """The factor, if it makes sense."""
  if not (math.isfinite(factor) and 0 < factor <= 1):
    raise UserError(f"--scale must be above 0 and at most 1, as in --scale=0.05; found {factor}.")
  return factor


def _shrink_flag(flag: str, factor: float | None) -> str:
  name, _, value = flag.removeprefix("--").partition("=")
  return f"--{name}={shrink(name, int(value), factor)}" if name in AT_LEAST else flag
