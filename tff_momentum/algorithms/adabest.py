"""AdaBest: each client estimates its bias, and the estimate fades with the rounds that the client is away.

Farshid Varno et al., "AdaBest: Minimizing Client Drift in Federated Learning via Adaptive Bias Estimation",
ECCV 2022, Algorithm 1. https://arxiv.org/abs/2204.13170

    client:  y ← y − η_l (g(y; b) − h_i), from y = x
             h_i ← h_i/(t − t_i) + μ(x − y);   t_i ← t;   Δ = x − y
    server:  ȳ = E[y] = x − E[Δ];   h = β(ȳ₋ − ȳ), with ȳ₋ of the last round;   x ← ȳ − h

Rounds count from 1 here; at the start t_i = 0, h_i = 0 and ȳ₋ = x⁰.

Deviations: the client sends Δ instead of y, so that compression and clipping see a small difference.
"""

from typing import NamedTuple

import tensorflow as tf

from tff_momentum import trees
from tff_momentum.algorithm import Algorithm, Exchange, Update, named
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.trees import Tree


class ServerState(NamedTuple):
  """The model, and the mean of the clients' models in the last round."""

  x: Tree
  y_bar: Tree


class ClientState(NamedTuple):
  """The client's estimate of its bias, and its last round (from 1; 0 for none)."""

  h_i: Tree
  t_i: tf.Tensor


@named
def adabest(
  *,
  client_learning_rate: float | Schedule,
  mu: float | Schedule = 0.02,
  beta: float | Schedule = 0.8,
  client_weighting: str = "uniform",
) -> Algorithm:
  """AdaBest.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    mu: μ ≥ 0, the share of its drift that a client takes for bias; default 0.02. GHBM, Table 6, calls it α.
    beta: β in [0, 1), how far the server continues in the direction of the last round; default 0.8.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> adabest(client_learning_rate=0.1, beta=0.9).name
    'adabest'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  mu = schedule("mu", mu, at_least=0)
  beta = schedule("beta", beta, at_least=0, below=1)

  def client_update(client, x, state):
    lr, t = eta_l(client.round), client.round + 1

    def step(y, grad):
      return trees.map(lambda y, g, h_i: y - lr * (g - h_i), y, grad(y), state.h_i)

    delta = trees.subtract(x, client.steps(step, x))
    away = tf.cast(t - state.t_i, tf.float32)
    h_i = trees.map(lambda h_i, d: h_i / away + mu(client.round) * d, state.h_i, delta)
    return Update(delta, ClientState(h_i, t))

  def server_update(state, delta, info):
    y_bar = trees.subtract(state.x, delta)
    h = trees.map(lambda last, y_bar: beta(info.round) * (last - y_bar), state.y_bar, y_bar)
    return ServerState(trees.subtract(y_bar, h), y_bar)

  return Algorithm(
    init_server=lambda x: ServerState(x, x),
    exchanges=(Exchange(lambda state, t: state.x, client_update, server_update),),
    model=lambda state: state.x,
    init_client=lambda x, seed: ClientState(trees.zeros_like(x), tf.zeros([], tf.int32)),
    client_weighting=client_weighting,
  )
