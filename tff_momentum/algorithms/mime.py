"""Mime (Karimireddy et al. 2020, Algorithm 1): a server's optimizer, used at the clients.

mime:      c = E[G_i(x)] of this cohort, in an exchange of its own;
           y ← y − η_l U(g(y; b) − g(x; b) + c, s), both gradients on one batch, s still
           x ← E[y];   s ← V(c, s)
mime_mvr:  y ← y − η_l [a g(y; b) + (1−a)(m + g(y; b) − g(x₋; b))], both gradients on one batch
           m ← a E[G_i(x)] + (1−a)(m + E[G_i(x)] − E[G_i(x₋)]);   x₋ ← x, x ← E[y]
           m starts at the first cohort's E[G_i(x⁰)], in an exchange that takes place once
"""

from typing import Any, NamedTuple

from tff_momentum import trees
from tff_momentum.algorithm import Algorithm, Exchange, Update
from tff_momentum.optimizers import Optimizer, momentum_of
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


class MvrState(NamedTuple):
  """The model, the one before it, and the momentum; all three are sent to the clients."""

  x: Any
  x_minus: Any
  m: Any


class MvrUpload(NamedTuple):
  """A client's model and its full gradients at x and at x₋."""

  y: Any
  here: Any
  there: Any


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
        lambda state, gradient, info: Anchored(state.x, state.s, c=gradient),
      ),
      Exchange(lambda state, t: state, client_update, server_update),
    ),
    model=lambda state: state.x,
    client_weighting=client_weighting,
    momentum=momentum_of(base),
  )


def mime_mvr(
  *,
  client_learning_rate: float | Schedule,
  a: float | Schedule = 0.1,
  client_weighting: str = "uniform",
) -> Algorithm:
  """MimeMVR: momentum-based variance reduction at the clients.

  Args:
    client_learning_rate: η_l > 0.
    a: a in [0, 1]; 1 is FedAvg.
    client_weighting: "uniform" or "num_examples".
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  a = schedule("a", a, at_least=0, at_most=1)

  def client_update(client, message, state):
    x, x_minus, m = message
    lr, old = eta_l(client.round), 1 - a(client.round)

    def step(y, grad):  # a g + (1−a)(m + g − g₋) = g + (1−a)(m − g₋)
      v = trees.map(lambda g, g_minus, m: g + old * (m - g_minus), grad(y), grad(x_minus), m)
      return trees.map(lambda y, v: y - lr * v, y, v)

    return Update(MvrUpload(client.steps(step, x), *client.full_gradient(x, x_minus)))

  def server_update(state, mean, info):
    old = 1 - a(info.round)
    m = trees.map(lambda m, g, g_minus: g + old * (m - g_minus), state.m, mean.here, mean.there)
    return MvrState(x=mean.y, x_minus=state.x, m=m)

  return Algorithm(
    init_server=lambda x: MvrState(x, x_minus=x, m=trees.zeros_like(x)),
    exchanges=(
      Exchange(
        lambda state, t: state.x,
        gradient_at_server_model,
        lambda state, gradient, info: state._replace(m=gradient),
        first_round_only=True,
      ),
      Exchange(lambda state, t: state, client_update, server_update),
    ),
    model=lambda state: state.x,
    client_weighting=client_weighting,
    momentum=lambda state, t, steps: state.m,
  )


def gradient_at_server_model(client: Any, x: Any, state: Any) -> Update:
  """The exchange in which a client does no more than report G_i(x)."""
  return Update(client.full_gradient(x))
