"""FedSGD with any base optimizer: one full gradient from each client a round, no local steps.

H. Brendan McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data",
AISTATS 2017, section 2. https://arxiv.org/abs/1602.05629

    client:  G_i(x), the gradient over all its examples
    server:  x ← x − η U(E[G], s);   s ← V(E[G], s)

With `mvr`, the momentum-based variance reduction of Cutkosky and Orabona, "Momentum-Based Variance Reduction
in Non-Convex SGD", NeurIPS 2019 (https://arxiv.org/abs/1905.10018), clients also send their gradient at x₋,
the model of the round before:

    server:  m ← a E[G(x)] + (1−a)(m + E[G(x)] − E[G(x₋)]);   x ← x − η m

m starts at the first cohort's E[G(x⁰)].

Deviations: the paper has plain SGD; the base optimizers make `fedsgd` the centralised reference for Mime.
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from tff_momentum import call_syntax, trees, validation
from tff_momentum.algorithm import Algorithm, Exchange, Update, named
from tff_momentum.default_rates import LocalSgd, Rates, derives_rates
from tff_momentum.optimizers import OPTIMIZERS, Optimizer, momentum_of
from tff_momentum.optimizers import optimizer as as_optimizer
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.trees import Tree


class ServerState(NamedTuple):
  """The model and the optimizer's statistics."""

  x: Tree
  s: Tree


class MvrState(NamedTuple):
  """The model, the model of the round before, and the momentum."""

  x: Tree
  x_minus: Tree
  m: Tree


class Mvr(NamedTuple):
  """Momentum-based variance reduction. It needs gradients at two points, so only `fedsgd` accepts it."""

  a: float


def mvr(a: float = 0.1) -> Mvr:
  """Momentum-based variance reduction with a in [0, 1]; a = 1 is plain SGD."""
  return Mvr(validation.number("a", a, at_least=0, at_most=1))


def one_step(sgd: LocalSgd, hyperparameters: Mapping[str, Any]) -> Rates:
  """A step on the cohort's gradient is stable where local SGD is, so the server's rate is SGD's."""
  parsed = _parse(hyperparameters["optimizer"])
  gain = 1.0 if isinstance(parsed, Mvr) else parsed.gain
  return {"server_learning_rate": sgd.learning_rate / gain}


@named
@derives_rates(one_step)
def fedsgd(
  *,
  server_learning_rate: float | Schedule = 1.0,
  optimizer: Optimizer | Mvr | str = "sgd",
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedSGD, the federated form of full-gradient descent with optimizer (U, V).

  Args:
    server_learning_rate: η > 0, a number or a schedule; default 1.
    optimizer: the base optimizer (U, V), or `mvr(a)`, as an object or as text; default "sgd".
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedsgd(server_learning_rate=0.5, optimizer="sgdm(0.9)").name
    'fedsgd'
  """
  eta = schedule("server_learning_rate", server_learning_rate, above=0)
  base = _parse(optimizer)
  if isinstance(base, Mvr):
    return _fedsgd_mvr(eta, base.a, client_weighting)

  def client_update(client, x, state):
    return Update(client.full_gradient(x))

  def server_update(state, gradient, info):
    x = base.move(state.x, base.step(gradient, state.s), eta(info.round))
    return ServerState(x, base.track(gradient, state.s))

  return Algorithm(
    init_server=lambda x: ServerState(x, base.start(x)),
    exchanges=(
      Exchange(lambda state, t: state.x, client_update, server_update, client_work="full_gradient"),
    ),
    model=lambda state: state.x,
    client_weighting=client_weighting,
    momentum=momentum_of(base),
  )


def _parse(optimizer: Optimizer | Mvr | str) -> Optimizer | Mvr:
  if isinstance(optimizer, str):
    return call_syntax.evaluate("optimizer", optimizer, {**OPTIMIZERS, "mvr": mvr}, literal="")
  return optimizer if isinstance(optimizer, Mvr) else as_optimizer(optimizer)


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
    exchanges=(
      Exchange(
        lambda state, t: (state.x, state.x_minus),
        client_update,
        server_update,
        client_work="full_gradient",
      ),
    ),
    model=lambda state: state.x,
    client_weighting=client_weighting,
    momentum=lambda state, t, steps: state.m,
  )
