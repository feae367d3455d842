"""MimeLite and MimeXlite: Mime without its correction, in one exchange.

Sai Praneeth Karimireddy et al., "Mime: Mimicking Centralized Stochastic Algorithms in Federated Learning",
arXiv 2020, Algorithm 1 (MimeLite). https://arxiv.org/abs/2008.03606
Jed Mills et al., "Accelerating Federated Learning with a Global Biased Optimiser", IEEE Transactions on
Computers 2022, section 5.2 (MimeXlite). https://arxiv.org/abs/2108.09134

    client:  y ← y − η_l U(g(y; b), s), from y = x, s fixed
             uploads y and G_i(x) (mimelite), or y and g(x; b) of its first batch (mimexlite)
    server:  x ← E[y];   s ← V(E[uploaded gradient], s)
"""

from typing import NamedTuple

import tensorflow as tf

from tff_momentum import trees
from tff_momentum.algorithm import Algorithm, ClientUpdate, Exchange, Update, named
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
  """A client's model and its gradient at x."""

  y: Tree
  gradient: Tree


@named
@derives_rates(fixed_statistics_rates)
def mimelite(
  *,
  client_learning_rate: float | Schedule,
  optimizer: Optimizer | str = "sgdm(0.9)",
  client_weighting: str = "uniform",
) -> Algorithm:
  """MimeLite with any base optimizer.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    optimizer: the base optimizer (U, V), as an object or as text; default "sgdm(0.9)", not dampened.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> mimelite(client_learning_rate=0.1, optimizer="sgdm(0.95)").name
    'mimelite'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  base = as_optimizer(optimizer)

  def client_update(client, message, state):
    x, s = message

    def step(y, grad):
      return base.move(y, base.step(grad(y), s), eta_l(client.round))

    return Update(Upload(client.steps(step, x), client.full_gradient(x)))

  return _mimelite(base, client_update, client_weighting)


@named
@derives_rates(fixed_statistics_rates)
def mimexlite(
  *,
  client_learning_rate: float | Schedule,
  optimizer: Optimizer | str = "sgdm(0.9)",
  client_weighting: str = "uniform",
) -> Algorithm:
  """MimeXlite: MimeLite without the extra pass for the full gradient.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    optimizer: the base optimizer (U, V), as an object or as text; default "sgdm(0.9)", not dampened.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> mimexlite(client_learning_rate=0.1).name
    'mimexlite'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  base = as_optimizer(optimizer)

  def client_update(client, message, state):
    x, s = message

    def step(carry, grad):
      y, first, is_first = carry
      g = grad(y)
      y = base.move(y, base.step(g, s), eta_l(client.round))
      return y, trees.where(is_first, g, first), tf.constant(False)

    y, first, _ = client.steps(step, (x, trees.zeros_like(x), tf.constant(True)))
    return Update(Upload(y, first))

  return _mimelite(base, client_update, client_weighting)


def _mimelite(base: Optimizer, client_update: ClientUpdate, client_weighting: str) -> Algorithm:
  def server_update(state, mean, info):
    return ServerState(x=mean.y, s=base.track(mean.gradient, state.s))

  return Algorithm(
    init_server=lambda x: ServerState(x, base.start(x)),
    exchanges=(Exchange(lambda state, t: state, client_update, server_update),),
    model=lambda state: state.x,
    client_weighting=client_weighting,
    momentum=momentum_of(base),
  )
