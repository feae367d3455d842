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


# Learning rates by name, and other hyperparameters that must follow the task. A text is a schedule, a list of
# stages or a choice.
Rates: TypeAlias = dict[str, float | str]
Rule: TypeAlias = Callable[[LocalSgd, Mapping[str, Any]], Rates]
# An empirical constant: docs/default_rates.md has what it gives on digits with K = 1 and 16.
FROZEN_STEPS = 4.0
B = TypeVar("B", bound=Callable[..., Any])


def plain(sgd: LocalSgd, hyperparameters: Mapping[str, Any]) -> Rates:
  """The local steps have the size of plain SGD's."""
  return {"client_learning_rate": sgd.learning_rate}


def frozen_momentum_rate(sgd: LocalSgd, *, fresh: float, gain: float) -> float:
  """The client learning rate where the same momentum is part of all local steps of a round.

  Local SGD slows down as the local gradients shrink, but frozen momentum does not: K steps move the model by
  K·gain times the rate. At this rate that is as far as `FROZEN_STEPS` steps of plain SGD, whatever K is.
  The client's own gradient never has more weight than in plain SGD.

  Args:
    sgd: plain local SGD on the task.
    fresh: the weight of the client's gradient in a step: 1, or 1 − β for dampened momentum.
    gain: the size of a step in the long run, as a multiple of a constant gradient. Equal to `fresh` without
      momentum.

  >>> sgd = LocalSgd(learning_rate=0.3, steps=8.0)
  >>> round(frozen_momentum_rate(sgd, fresh=1.0, gain=10.0), 4)  # momentum 0.9
  0.015
  >>> frozen_momentum_rate(sgd, fresh=1.0, gain=1.0)  # no momentum
  0.3
  """
  if fresh >= gain:
    return sgd.learning_rate / gain
  return sgd.learning_rate * min(1 / fresh, FROZEN_STEPS / (max(1.0, sgd.steps) * gain))


def start_up_rate(beta: float, nu: float = 1.0) -> float:
  """The factor by which momentum that is a mean, m ← βm + (1−β)g, must be larger because it starts at zero.

  After t steps along a constant g, m = (1 − β^t)g. At this rate, the first 1/(1−β) steps along (1−ν)g + νm
  move the model as far as as many steps along g.

  >>> round(start_up_rate(0.9), 2), round(start_up_rate(0.9, nu=0.9), 2), start_up_rate(0.9, nu=0.0)
  (2.42, 2.12, 1.0)
  """
  steps = round(1 / (1 - beta))
  mean = sum(beta**t for t in range(1, steps + 1)) / steps
  return 1 / (1 - min(max(nu, 0.0), 1.0) * mean)


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
    name: float(f"{rate:.3g}") if isinstance(rate, float) else rate for name, rate in rates.items()
  }
