"""Mime: clients apply the server's optimizer with fixed statistics and SVRG-corrected gradients.

Sai Praneeth Karimireddy et al., "Mime: Mimicking Centralized Stochastic Algorithms in Federated Learning",
arXiv 2020, Algorithm 1. https://arxiv.org/abs/2008.03606

    first exchange:   c = E[G_i(x)] of this cohort
    second exchange:  y ← y − η_l U(g(y; b) − g(x; b) + c, s), both gradients on one batch, s fixed
                      x ← E[y];   s ← V(c, s)
"""

from typing import NamedTuple

from tff_momentum import trees
from tff_momentum.algorithm import Algorithm, Exchange, Update, named
from tff_momentum.client import Client
from tff_momentum.default_rates import derives_rates
from tff_momentum.optimizers import Optimizer, fixed_statistics_rates, momentum_of
from tff_momentum.optimizers import optimizer as as_optimizer
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.trees import Tree


class ServerState(NamedTuple):
  """The model and the optimizer's statistics."""

  x: Tree
  s: Tree


class Anchored(NamedTuple):
  """The state between the two exchanges: the server's state and c, the cohort's mean gradient at x."""

  x: Tree
  s: Tree
  c: Tree


@named
@derives_rates(fixed_statistics_rates)
def mime(
  *,
  client_learning_rate: float | Schedule,
  optimizer: Optimizer | str = "sgdm(0.9)",
  client_weighting: str = "uniform",
) -> Algorithm:
  """Mime with any base optimizer: two exchanges a round.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    optimizer: the base optimizer (U, V), as an object or as text; default "sgdm(0.9)", not dampened.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> mime(client_learning_rate=0.1, optimizer="adam(0.9, 0.99)").name
    'mime'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  base = as_optimizer(optimizer)

  def client_update(client, message, state):
    x, s, c = message

    def step(y, grad):
      corrected = trees.map(lambda gy, gx, c: gy - gx + c, grad(y), grad(x), c)
      return base.move(y, base.step(corrected, s), eta_l(client.round))

    return Update(client.steps(step, x))

  def server_update(state, y, info):
    return ServerState(x=y, s=base.track(state.c, state.s))

  return Algorithm(
    init_server=lambda x: ServerState(x, base.start(x)),
    exchanges=(
      Exchange(
        lambda state, t: state.x,
        gradient_at_server_model,
        lambda state, gradient, info: Anchored(state.x, state.s, c=gradient),
        client_work="full_gradient",
      ),
      Exchange(lambda state, t: state, client_update, server_update),
    ),
    model=lambda state: state.x,
    client_weighting=client_weighting,
    momentum=momentum_of(base),
  )


def gradient_at_server_model(client: Client, x: Tree, state: Tree) -> Update:
  """The client's part of an exchange in which it only reports G_i(x)."""
  return Update(client.full_gradient(x))
