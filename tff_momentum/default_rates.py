"""Default learning rates, derived from the rate at which plain local SGD works on a task.

A task states one learning rate: that of plain local SGD. Other algorithms take steps of another size at the
same rate: momentum that is not dampened multiplies a constant gradient by 1/(1 − β), and an algorithm without
local steps moves once where FedAvg moves K times. Each builder therefore states a rule that turns the task's
rate into its own defaults, with the reason in the rule's docstring, which a run prints:

    >>> from tff_momentum import algorithms
    >>> sgd = LocalSgd(learning_rate=0.3, steps=3.0)
    >>> default_rates(algorithms.fedavg, sgd, {})
    {'client_learning_rate': 0.3}
    >>> default_rates(algorithms.fedavg_lm, sgd, {"beta_l": 0.9})
    {'client_learning_rate': 0.16}

The rules choose only what the caller leaves out; a builder's own defaults stay those of its paper.
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias, TypeVar


class LocalSgd(NamedTuple):
  """Plain local SGD on a task.

  Attributes:
    learning_rate: η_l, a client learning rate at which FedAvg trains well.
    steps: K, the local steps of an average client per round.
  """

  learning_rate: float
  steps: float


Rates: TypeAlias = dict[str, float | str]  # a text is a schedule or a list of stages
Rule: TypeAlias = Callable[[LocalSgd, Mapping[str, Any]], Rates]
B = TypeVar("B", bound=Callable[..., Any])


def plain(sgd: LocalSgd, hyperparameters: Mapping[str, Any]) -> Rates:
  """The local steps have the size of plain SGD's."""
  return {"client_learning_rate": sgd.learning_rate}


def derives_rates(rule: Rule) -> Callable[[B], B]:
  """Decorates a builder with its rule.

  Args:
    rule: (`LocalSgd`, hyperparameters) -> default learning rates by name. The hyperparameters are those given
      and the builder's defaults for the others. The first line of its docstring is the reason.
  """

  def decorate(builder: B) -> B:
    builder.default_rates = rule  # type: ignore[attr-defined]
    return builder

  return decorate


def rule_of(builder: Callable[..., Any]) -> Rule:
  """The builder's rule, or `plain`."""
  return getattr(builder, "default_rates", plain)


def reason(builder: Callable[..., Any]) -> str:
  """Why the builder's default rates are what they are, in one sentence."""
  return (rule_of(builder).__doc__ or "").partition("\n")[0]


def default_rates(
  builder: Callable[..., Any], sgd: LocalSgd, hyperparameters: Mapping[str, Any]
) -> Rates:
  """The builder's default learning rates for a task, rounded to three digits.

  Args:
    builder: an algorithm's builder.
    sgd: plain local SGD on the task.
    hyperparameters: the builder's hyperparameters, defaults included.
  """
  rates = rule_of(builder)(sgd, hyperparameters)
  return {
    name: rate if isinstance(rate, str) else float(f"{rate:.3g}") for name, rate in rates.items()
  }
