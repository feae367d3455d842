"""FedADC: the server's momentum, spread over the local steps.

Emre Ozfatura, Kerem Ozfatura, Deniz Gündüz, "FedADC: Accelerated Federated Learning with Drift Control",
ISIT 2021. https://arxiv.org/abs/2012.09102

    heavy ball:  y ← y − η_l (g(y; b) + β_l m/K_i), from y = x
    look-ahead:  ŷ = y − η_l β_l m/K_i;   y ← ŷ − η_l g(ŷ; b)      (`nesterov`)
    server:      m ← E[Δ]/η_l + (β − β_l) m, Δ = x − y;   x ← x − η η_l m
"""

from typing import NamedTuple

import tensorflow as tf

from tff_momentum import trees, validation
from tff_momentum.algorithm import Algorithm, Exchange, Update, named
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.trees import Tree


class ServerState(NamedTuple):
  """The model and the momentum, in the units of a gradient; both are sent to the clients."""

  x: Tree
  m: Tree


@named
def fedadc(
  *,
  client_learning_rate: float | Schedule,
  beta: float | Schedule = 0.9,
  beta_l: float | Schedule = 0.9,
  nesterov: bool = False,
  server_learning_rate: float | Schedule = 1.0,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedADC.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    beta: β in [0, 1), the momentum of a whole round; default 0.9.
    beta_l: β_l in [0, 1), the part of it that the clients apply; 0 is FedAvgM. Default 0.9.
    nesterov: whether clients take the gradient after the momentum's part of the step (look-ahead); default
      False.
    server_learning_rate: η > 0, a number or a schedule; default 1.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedadc(client_learning_rate=0.1, nesterov=True).name
    'fedadc'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  eta = schedule("server_learning_rate", server_learning_rate, above=0)
  beta = schedule("beta", beta, at_least=0, below=1)
  beta_l = schedule("beta_l", beta_l, at_least=0, below=1)
  validation.boolean("nesterov", nesterov)

  def client_update(client, message, state):
    x, m = message
    lr, share = eta_l(client.round), beta_l(client.round) / client.num_steps

    def heavy_ball(y, grad):
      return trees.map(lambda y, g, m: y - lr * (g + share * m), y, grad(y), m)

    def look_ahead(y, grad):
      ahead = trees.map(lambda y, m: y - lr * share * m, y, m)
      return trees.map(lambda ahead, g: ahead - lr * g, ahead, grad(ahead))

    y = client.steps(look_ahead if nesterov else heavy_ball, x)
    return Update(trees.subtract(x, y))

  def server_update(state, delta, info):
    lr, kept = eta_l(info.round), beta(info.round) - beta_l(info.round)
    m = trees.map(lambda m, d: tf.math.divide_no_nan(d, lr) + kept * m, state.m, delta)
    return ServerState(trees.map(lambda x, m: x - eta(info.round) * lr * m, state.x, m), m)

  def momentum(state, t, steps):  # under a constant gradient m = K g + β m
    return trees.per_step(trees.scale(1 - beta(t), state.m), 1.0, steps)

  return Algorithm(
    init_server=lambda x: ServerState(x, trees.zeros_like(x)),
    exchanges=(Exchange(lambda state, t: state, client_update, server_update),),
    model=lambda state: state.x,
    client_weighting=client_weighting,
    momentum=momentum,
  )
