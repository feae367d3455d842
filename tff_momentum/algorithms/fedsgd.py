"""FedSGD with any base optimizer: the centralised method, one full gradient from each client a round.

client:  G_i(x), the gradient over all its examples; no local steps
server:  x ← x − η U(E[G], s);  s ← V(E[G], s)
mvr:     m ← a E[G(x)] + (1−a)(m + E[G(x)] − E[G(x₋)]), with x₋ the model of the round before;
         x ← x − η m; m starts at the first cohort's E[G(x⁰)]
"""

from typing import Any, NamedTuple

import tensorflow as tf

from tff_momentum import call_syntax, trees, validation
from tff_momentum.algorithm import Algorithm, Exchange, Update
from tff_momentum.optimizers import OPTIMIZERS, Optimizer, momentum_of
from tff_momentum.optimizers import optimizer as as_optimizer
from tff_momentum.schedules import Schedule, schedule


class ServerState(NamedTuple):
  """The model and the optimizer's statistics."""

  x: Any
  s: Any


class MvrState(NamedTuple):
  """The model, the one before it, and the momentum."""

  x: Any
  x_minus: Any
  m: Any


class Mvr(NamedTuple):
  """Momentum-based variance reduction; it needs gradients at two points, so only `fedsgd` takes it."""

  a: float


def mvr(a: float = 0.1) -> Mvr:
  """Variance reduction with a in [0, 1]; 1 is plain SGD."""
  return Mvr(validation.number("a", a, at_least=0, at_most=1))


def fedsgd(
  *,
  server_learning_rate: float | Schedule = 1.0,
  optimizer: Optimizer | Mvr | str = "sgd",
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedSGD.

  Args:
    server_learning_rate: η > 0.
    optimizer: the base optimizer (U, V), or `mvr(a)`.
    client_weighting: "uniform" or "num_examples".
  """
  eta = schedule("server_learning_rate", server_learning_rate, above=0)
  if isinstance(optimizer, str):
    optimizer = call_syntax.evaluate("optimizer", optimizer, {**OPTIMIZERS, "mvr": mvr})
  if isinstance(optimizer, Mvr):
    return _fedsgd_mvr(eta, optimizer.a, client_weighting)
  base = as_optimizer(optimizer)

  def client_update(client, x, state):
    return Update(client.full_gradient(x))

  def server_update(state, gradient, info):
    u = base.step(gradient, state.s)
    x = trees.map(lambda x, u: x - eta(info.round) * u, state.x, u)
    return ServerState(x, base.track(gradient, state.s))

  return Algorithm(
    init_server=lambda x: ServerState(x, base.start(x)),
    exchanges=(Exchange(lambda state, t: state.x, client_update, server_update),),
    model=lambda state: state.x,
    client_weighting=client_weighting,
    momentum=momentum_of(base),
  )


def _fedsgd_mvr(eta: Schedule, a: float, client_weighting: str) -> Algorithm:
  def client_update(client, message, state):
    x, x_minus = message
    return Update(client.full_gradient(x, x_minus))

  def server_update(state, gradients, info):
    here, there = gradients
    m = trees.where(tf.equal(info.round, 0), there, state.m)
    m = trees.map(lambda h, t, m: a * h + (1 - a) * (m + h - t), here, there, m)
    return MvrState(
      x=trees.map(lambda x, m: x - eta(info.round) * m, state.x, m), x_minus=state.x, m=m
    )

  return Algorithm(
    init_server=lambda x: MvrState(x, x_minus=x, m=trees.zeros_like(x)),
    exchanges=(Exchange(lambda state, t: (state.x, state.x_minus), client_update, server_update),),
    model=lambda state: state.x,
    client_weighting=client_weighting,
    momentum=lambda state, t, steps: state.m,
  )
