"""The record that the registry keeps of an algorithm, shared hyperparameters, and the reference lines.

It imports nothing heavy, for the same reason as `tff_momentum.registry`.
"""

import dataclasses
import enum
from typing import Any


class Default(enum.Enum):
  """What stands in the place of a default value."""

  REQUIRED = "required"


REQUIRED = Default.REQUIRED


@dataclasses.dataclass(frozen=True)
class AlgorithmInfo:
  """What is known of an algorithm without building it.

  Attributes:
    module: the module in `tff_momentum.algorithms` that defines its builder.
    source: the paper's short name, a key of `tff_momentum.papers.PAPERS`, and the place in it, as in
      "GHBM, eq. 6".
    rule: the update in one line.
    hyperparameters: the builder's keyword arguments in order, each with its default or `REQUIRED`.
    asynchronous: whether clients may start from an older model than the server's current one.
  """

  module: str
  source: str
  rule: str
  hyperparameters: dict[str, Any]
  asynchronous: bool = False

  @property
  def paper(self) -> str:
    """The paper's short name: the source without the place in it."""
    return self.source.partition(", ")[0]


def local(**own: Any) -> dict[str, Any]:
  """The hyperparameters of an algorithm with local steps: all share the first, nearly all the last."""
  return {"client_learning_rate": REQUIRED, **own, "client_weighting": "uniform"}


def by_examples(**own: Any) -> dict[str, Any]:
  """The same for algorithms that weight clients by their examples unless told otherwise."""
  return {"client_learning_rate": REQUIRED, **own, "client_weighting": "num_examples"}


def counting(**own: Any) -> dict[str, Any]:
  """The same for algorithms that need the number of all clients, and of all examples if weighted."""
  return {
    "client_learning_rate": REQUIRED,
    "num_clients": REQUIRED,
    **own,
    "client_weighting": "uniform",
    "total_examples": None,
  }


# What algorithms are compared with: `--algo` takes these names, but they are not federated algorithms.
REFERENCE_LINES: dict[str, AlgorithmInfo] = {
  "centralised": AlgorithmInfo(
    "reference_lines",
    "reference line",
    "y ← y − η_l g(y; b), with b from the data of all clients together",
    {"client_learning_rate": REQUIRED},
  ),
  "local_only": AlgorithmInfo(
    "reference_lines",
    "reference line",
    "y_i ← y_i − η_l g(y_i; b) at each client alone; nothing is averaged",
    {"client_learning_rate": REQUIRED},
  ),
}
