"""FedGBO: clients apply the server's optimizer statistics; the server recovers them from the models alone.

Jed Mills et al., "Accelerating Federated Learning with a Global Biased Optimiser", IEEE Transactions on
Computers 2022, Algorithm 1. https://arxiv.org/abs/2108.09134

    client:  y ← y − η_l U(g(y; b), s), from y = x, s fixed;   uploads y
    server:  x⁺ = E[y];   ḡ = I((x − x⁺)/(η_l K), s);   s ← V(ḡ, s)

Deviations: the paper has one K for all clients; where they differ, K = E[K_i], a number uploaded beside y.
The paper prints √(v+ε) in U, √v + ε in I, and g for g² in V; here both are √v + ε and g², so that I is exact.
"""

from typing import NamedTuple

import tensorflow as tf

from tff_momentum import trees
from tff_momentum.algorithm import Algorithm, ClientUpdate, Exchange, ServerUpdate, Update, named
from tff_momentum.default_rates import derives_rates
from tff_momentum.optimizers import Optimizer, fixed_statistics_rates, momentum_of
from tff_momentum.optimizers import optimizer as as_optimizer
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.trees import Tree


class ServerState(NamedTuple):
  """The model and the optimizer's statistics; both are sent to the clients."""

  x: Tree
  s: Tree


class Upload(NamedTuple):
  """A client's model and the number of steps it took."""

  y: Tree
  K: tf.Tensor


@named
@derives_rates(fixed_statistics_rates)
def fedgbo(
  *,
  client_learning_rate: float | Schedule,
  optimizer: Optimizer | str = "sgdm(0.9, dampened=True)",
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedGBO with any base optimizer.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    optimizer: the base optimizer (U, V, I), as an object or as text; default "sgdm(0.9, dampened=True)", the
      paper's form of momentum.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedgbo(client_learning_rate=0.1, optimizer="rmsprop(0.9)").name
    'fedgbo'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  base = as_optimizer(optimizer)
  invert = base.invert
  if invert is None:
    raise ValueError(
      "optimizer must be one whose steps give the gradient back: sgd, sgdm, rmsprop, adagrad or adam; "
      f"found {base}."
    )

  def client_update(client, message, state):
    x, s = message

    def step(y, grad):
      return trees.map(lambda y, u: y - eta_l(client.round) * u, y, base.step(grad(y), s))

    return Update(Upload(client.steps(step, x), client.num_steps))

  def server_update(state, mean, info):
    x, s = state
    length = eta_l(info.round) * mean.K  # 0 where a schedule is 0: the mean step is then 0
    mean_step = trees.map(lambda x, y: tf.math.divide_no_nan(x - y, length), x, mean.y)
    return ServerState(x=mean.y, s=base.track(invert(mean_step, s), s))

  return with_statistics(base, client_update, server_update, client_weighting)


def with_statistics(
  base: Optimizer,
  client_update: ClientUpdate,
  server_update: ServerUpdate,
  client_weighting: str,
) -> Algorithm:
  """The server keeps the model and the base optimizer's statistics, and sends both to the clients."""
  return Algorithm(
    init_server=lambda x: ServerState(x, base.start(x)),
    exchanges=(Exchange(lambda state, t: state, client_update, server_update),),
    model=lambda state: state.x,
    client_weighting=client_weighting,
    momentum=momentum_of(base),
  )
