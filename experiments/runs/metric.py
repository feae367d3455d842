"""The metric that ranks the runs of a task: an accuracy, a recall or the like, else the loss.

A regression is ranked by its loss, as in the papers, and not by r², which only rescales it.
"""

import dataclasses
from collections.abc import Collection

# Metrics of which more is better, in the order of preference. Each is a share of 1.
SHARES = ("accuracy", "recall", "precision", "auc", "f1")
LOWER_IS_BETTER = ("loss", "error", "mse", "distance", "perplexity")


@dataclasses.dataclass(frozen=True)
class Metric:
  """A column of metrics.csv by which runs are compared.

  Attributes:
    column: the column, as in `eval/accuracy`.
    larger_is_better: whether more is better.
  """

  column: str
  larger_is_better: bool

  @property
  def name(self) -> str:
    """The metric in words: `eval/recall_at_5` is "recall at 5"."""
    return self.column.removeprefix("eval/").replace("_", " ")

  @property
  def axis(self) -> str:
    """The label of an axis."""
    return f"Test {self.name} (%)" if self.larger_is_better else f"Test {self.name}"

  @property
  def factor(self) -> float:
    """The shown number over the measured one: shares are shown in percent."""
    return 100.0 if self.larger_is_better else 1.0

  @property
  def sign(self) -> float:
    """1 if more is better, −1 if less is."""
    return 1.0 if self.larger_is_better else -1.0

  def show(self, value: float) -> str:
    """A value as text."""
    return f"{value * self.factor:.1f}" if self.larger_is_better else f"{value:.4g}"

  def better(self, left: float, right: float) -> bool:
    """Whether the left value is at least as good as the right one."""
    return left >= right if self.larger_is_better else left <= right


def main_metric(evaluated: Collection[str]) -> Metric | None:
  """The metric that ranks runs with these evaluated columns; None if there is neither a share nor a loss.

  >>> main_metric(["eval/loss", "eval/r2"]).column
  'eval/loss'
  """
  for word in SHARES:
    found = [name for name in evaluated if word in name]
    if found:
      return Metric(min(found, key=lambda name: (name != f"eval/{word}", name)), True)
  return Metric("eval/loss", False) if "eval/loss" in evaluated else None


def named(name: str) -> Metric:
  """The metric of this name, as in `accuracy` or `eval/loss`.

  >>> named("perplexity").larger_is_better
  False
  """
  name = name.removeprefix("eval/")
  return Metric(f"eval/{name}", not any(word in name for word in LOWER_IS_BETTER))
