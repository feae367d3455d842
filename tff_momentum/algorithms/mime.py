"""Mime and MimeLite (Karimireddy et al. 2020, Algorithm 1): a server's optimizer, used at the clients.

The statistics s stand still during a round:

    mime:     c = E[G_i(x)] of this cohort, in an exchange of its own;
              y ← y − η_l U(g(y; b) − g(x; b) + c, s), both gradients on one batch
    mimelite: y ← y − η_l U(g(y; b), s)
    server:   x ← E[y];   s ← V(E[G_i(x)], s)
"""

from typing import Any, NamedTuple

from tff_momentum import trees
from tff_momentum.algorithm import Algorithm, Exchange, Update
from tff_momentum.optimizers import Optimizer
from tff_momentum.optimizers import optimizer as as_optimizer
from tff_momentum.schedules import Schedule, schedule


class ServerState(NamedTuple):
  """The model and the optimizer's statistics."""

  x: Any
  s: Any


class Anchored(NamedTuple):
  """The state between Mime's two exchanges: with the cohort's mean gradient at x."""

  x: Any
  s: Any
  c: Any


class Upload(NamedTuple):
  """A client's model and its full gradient at x."""

  y: Any
  gradient: Any


def mime(
  *,
  client_learning_rate: float | Schedule,
  optimizer: Optimizer | str = "sgdm(0.9)",
  client_weighting: str = "uniform",
) -> Algorithm:
  """Mime, with the SVRG correction: two exchanges a round.

  Args:
    client_learning_rate: η_l > 0.
    optimizer: the base optimizer (U, V).
    client_weighting: "uniform" or "num_examples".
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  base = as_optimizer(optimizer)

  def gradient_at_server_model(client, x, state):
    return Update(client.full_gradient(x))

  def client_update(client, message, state):
    x, s, c = message

    def step(y, grad):
      corrected = trees.map(lambda gy, gx, c: gy - gx + c, grad(y), grad(x), c)
      return trees.map(lambda y, u: y - eta_l(client.round) * u, y, base.step(corrected, s))

    return Update(client.steps(step, x))

  def server_update(state, y, info):
    return ServerState(x=y, s=base.track(state.c, state.s))

  return Algorithm(
    init_server=lambda x: ServerState(x, base.start(x)),
    exchanges=(
      Exchange(
        lambda state, t: state.x,
        gradient_at_server_model,
        lambda state, gradient, info: Anchored(*state, c=gradient),
      ),
      Exchange(lambda state, t: state, client_update, server_update),
    ),
    model=lambda state: state.x,
    client_weighting=client_weighting,
  )


def mimelite(
  *,
  client_learning_rate: float | Schedule,
  optimizer: Optimizer | str = "sgdm(0.9)",
  client_weighting: str = "uniform",
) -> Algorithm:
  """MimeLite: no correction, one exchange.

  Args:
    client_learning_rate: η_l > 0.
    optimizer: the base optimizer (U, V).
    client_weighting: "uniform" or "num_examples".
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  base = as_optimizer(optimizer)

  def client_update(client, message, state):
    x, s = message

    def step(y, grad):
      return trees.map(lambda y, u: y - eta_l(client.round) * u, y, base.step(grad(y), s))

    return Update(Upload(client.steps(step, x), client.full_gradient(x)))

  def server_update(state, mean, info):
    return ServerState(x=mean.y, s=base.track(mean.gradient, state.s))

  return Algorithm(
    init_server=lambda x: ServerState(x, base.start(x)),
    exchanges=(Exchange(lambda state, t: state, client_update, server_update),),
    model=lambda state: state.x,
    client_weighting=client_weighting,
  )
