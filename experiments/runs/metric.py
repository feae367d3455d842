"""The metric that ranks the runs of a task: an accuracy, a recall or the like, else the loss.

A regression is ranked by its loss, as in the papers, and not by r², which only rescales it. Results are
compared by the metric on the test data (`main_metric`). Hyperparameters and the best model are chosen by the
metric on the held-out clients, if the run has any (`tuning_metric`).
"""

import dataclasses
from collections.abc import Collection

from experiments.runs.columns import EVAL, VALIDATION

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
    return self.column.removeprefix(EVAL).removeprefix(VALIDATION).replace("_", " ")

  @property
  def data(self) -> str:
    """What the metric is measured on: "test" or "validation"."""
    return "validation" if self.column.startswith(VALIDATION) else "test"

  @property
  def axis(self) -> str:
    """The label of an axis."""
    unit = " (%)" if self.larger_is_better else ""
    return f"{self.data.capitalize()} {self.name}{unit}"

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


def main_metric(evaluated: Collection[str], of: str = EVAL) -> Metric | None:
  """The metric that compares runs with these evaluated columns; None if there is neither a share nor a loss.

  Args:
    evaluated: the columns.
    of: the prefix of the columns to choose from: `eval/`, the test data, or `validation/`.

  >>> main_metric(["eval/loss", "eval/r2"]).column
  'eval/loss'
  """
  names = [name.removeprefix(of) for name in evaluated if name.startswith(of)]
  for word in SHARES:
    found = [name for name in names if word in name]
    if found:
      return Metric(of + min(found, key=lambda name: (name != word, name)), True)
  return Metric(f"{of}loss", False) if "loss" in names else None


def tuning_metric(evaluated: Collection[str]) -> Metric | None:
  """The metric that chooses hyperparameters: on the held-out clients if there are any, else on the test data.

  >>> tuning_metric(["eval/loss", "eval/accuracy", "validation/loss", "validation/accuracy"]).column
  'validation/accuracy'
  """
  return main_metric(evaluated, VALIDATION) or main_metric(evaluated, EVAL)


def named(name: str, of: str = EVAL) -> Metric:
  """The metric of this name, as in `accuracy`, `eval/loss` or `validation/loss`.

  Args:
    name: the name.
    of: the prefix of a name without one.

  >>> named("perplexity").larger_is_better
  False
  """
  column = name if name.startswith((EVAL, VALIDATION)) else of + name
  return Metric(column, not any(word in column.partition("/")[2] for word in LOWER_IS_BETTER))


def on_test_data(column: str) -> str:
  """The column of the same metric on the test data.

  >>> on_test_data("validation/accuracy")
  'eval/accuracy'
  """
  return EVAL + column.removeprefix(VALIDATION) if column.startswith(VALIDATION) else column


def on_held_out_clients(metric: Metric) -> Metric:
  """The same metric on the held-out clients."""
  return dataclasses.replace(metric, column=VALIDATION + metric.column.removeprefix(EVAL))
