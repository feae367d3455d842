"""FedGBO (Accelerating Federated Learning with a Global Biased Optimiser, Algorithm 1) and MFL.

fedgbo:  y ← y − η_l U(g(y; b), s), from y = x, s still;   uploads y
         x⁺ = E[y];   ḡ = I((x − x⁺)/(η_l K), s);   s ← V(ḡ, s)
mfl:     s moves with the local steps: s ← V(g(y; b), s), then y ← y − η_l · (the step of the new s)
         uploads y and s, and the server averages both (Liu et al. 2020)

Deviations: the paper has one K for all clients; where they differ, K = E[K_i], a number beside y.
"""

import dataclasses
from typing import Any, NamedTuple

import tensorflow as tf

from tff_momentum import trees
from tff_momentum.algorithm import Algorithm, Exchange, Update
from tff_momentum.optimizers import Optimizer, momentum_of
from tff_momentum.optimizers import optimizer as as_optimizer
from tff_momentum.schedules import Schedule, schedule

# Operations of a moving step for each parameter: the paper's Table 6, from which it computes its Tables 7
# and 8, though its text says 8 for RMSProp and 4 for SGDm.
MOVING_OPERATIONS = {"rmsprop": 5, "sgdm": 8, "adam": 11}


class ServerState(NamedTuple):
  """The model and the optimizer's statistics; both are sent to the clients."""

  x: Any
  s: Any


class Upload(NamedTuple):
  """FedGBO's: a client's model, and how many steps it took."""

  y: Any
  K: Any


def fedgbo(
  *,
  client_learning_rate: float | Schedule,
  optimizer: Optimizer | str = "sgdm(0.9, dampened=True)",
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedGBO: the statistics are recovered from the models alone.

  Args:
    client_learning_rate: η_l > 0.
    optimizer: the base optimizer (U, V, I).
    client_weighting: "uniform" or "num_examples".
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  base = as_optimizer(optimizer)

  def client_update(client, message, state):
    x, s = message

    def step(y, grad):
      return trees.map(lambda y, u: y - eta_l(client.round) * u, y, base.step(grad(y), s))

    return Update(Upload(client.steps(step, x), client.num_steps))

  def server_update(state, mean, info):
    x, s = state
    length = eta_l(info.round) * mean.K  # 0 if a schedule has ended there: then nothing was seen
    mean_step = trees.map(lambda x, y: tf.math.divide_no_nan(x - y, length), x, mean.y)
    return ServerState(x=mean.y, s=base.track(base.invert(mean_step, s), s))

  return _with_statistics(base, client_update, server_update, client_weighting)


def mfl(
  *,
  client_learning_rate: float | Schedule,
  optimizer: Optimizer | str = "sgdm(0.9, dampened=True)",
  client_weighting: str = "uniform",
) -> Algorithm:
  """Momentum federated learning: each client runs the optimizer, and its statistics are averaged.

  Args:
    client_learning_rate: η_l > 0.
    optimizer: the base optimizer, whose statistics move.
    client_weighting: "uniform" or "num_examples".
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  base = as_optimizer(optimizer)

  def client_update(client, message, state):
    def step(carry, grad):
      y, s = carry
      g = grad(y)
      s = base.track(g, s)
      u = base.moving_step(g, s)
      return ServerState(trees.map(lambda y, u: y - eta_l(client.round) * u, y, u), s)

    return Update(client.steps(step, message))

  plain = _with_statistics(base, client_update, lambda state, mean, info: mean, client_weighting)
  operations = MOVING_OPERATIONS.get(base.text.partition("(")[0])
  return dataclasses.replace(plain, step_operations=operations)


def _with_statistics(
  base: Optimizer, client_update: Any, server_update: Any, client_weighting: str
) -> Algorithm:
  return Algorithm(
    init_server=lambda x: ServerState(x, base.start(x)),
    exchanges=(Exchange(lambda state, t: state, client_update, server_update),),
    model=lambda state: state.x,
    client_weighting=client_weighting,
    momentum=momentum_of(base),
  )
