"""MFL (momentum federated learning): each client runs the optimizer, and the server averages its statistics.

Wei Liu, Li Chen, Yunfei Chen, Wenyi Zhang, "Accelerating Federated Learning via Momentum Gradient Descent",
IEEE Transactions on Parallel and Distributed Systems 2020. https://arxiv.org/abs/1910.03197

    client:  s ← V(g(y; b), s);   y ← y − η_l · (the step of the new s), from (y, s) = (x, s)
    server:  x ← E[y];   s ← E[s_i]

With `optimizer="lion"` this is FedLion.

Deviations: the paper has momentum alone; other base optimizers follow FedGBO
(https://arxiv.org/abs/2108.09134).
"""

import dataclasses

from tff_momentum.algorithm import Algorithm, Update, named
from tff_momentum.algorithms.fedgbo import ServerState, with_statistics
from tff_momentum.default_rates import derives_rates
from tff_momentum.optimizers import Optimizer, moving_statistics_rates
from tff_momentum.optimizers import optimizer as as_optimizer
from tff_momentum.schedules import Schedule, schedule

# Operations per parameter of a step with moving statistics, from FedGBO, Table 6. FedGBO's Tables 7 and 8 use
# these numbers, although its text says 8 for RMSProp and 4 for SGDm.
MOVING_OPERATIONS = {"rmsprop": 5, "sgdm": 8, "adam": 11}


@named
@derives_rates(moving_statistics_rates)
def mfl(
  *,
  client_learning_rate: float | Schedule,
  optimizer: Optimizer | str = "sgdm(0.9, dampened=True)",
  client_weighting: str = "uniform",
) -> Algorithm:
  """MFL with any base optimizer.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    optimizer: the base optimizer, whose statistics move with every local step, as an object or as text;
      default "sgdm(0.9, dampened=True)".
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> mfl(client_learning_rate=0.1, optimizer="sgdm(0.5, dampened=True)").name
    'mfl'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  base = as_optimizer(optimizer)

  def client_update(client, message, state):
    def step(carry, grad):
      y, s = carry
      g = grad(y)
      new = base.track(g, s)
      u = base.moving_step(g, s, new)
      return ServerState(base.move(y, u, eta_l(client.round)), new)

    return Update(client.steps(step, message))

  plain = with_statistics(base, client_update, lambda state, mean, info: mean, client_weighting)
  operations = MOVING_OPERATIONS.get(base.text.partition("(")[0])
  return dataclasses.replace(plain, step_operations=operations)
