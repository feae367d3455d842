"""The results of checks: passed, failed with a sentence, or skipped with a reason."""

import dataclasses

# The usual cause of a failure that depends on what ran before, or where.
OTHER_STATE = (
  "The usual cause is state outside the server's and the clients' states: a Python variable, a "
  "tf.Variable, or a function behind tf.numpy_function."
)


class ContractError(AssertionError):
  """A check failed: what was expected, what was found, and the usual cause."""


class SkippedCheck(Exception):
  """A check cannot run here, for the reason in the message."""


@dataclasses.dataclass(frozen=True)
class CheckReport:
  """What `check_algorithm` found in an algorithm that passes.

  Attributes:
    algorithm: the name of the builder.
    passed: the names of the checks that passed.
    skipped: the checks that could not run, with the reasons.
  """

  algorithm: str
  passed: tuple[str, ...]
  skipped: dict[str, str]

  def __str__(self) -> str:
    lines = [f"{self.algorithm} passed {len(self.passed)} checks: {', '.join(self.passed)}."]
    lines += [f"{name} was skipped: {reason}" for name, reason in self.skipped.items()]
    return "\n".join(lines)
