"""FedAvg-lm and FedAvg-glm: momentum in the local steps, and for glm at the server as well.

Rudrajit Das et al., "Faster Non-Convex Federated Learning via Global and Local Momentum", UAI 2022, section
6, where both are baselines of FedGLOMO. https://arxiv.org/abs/2012.04061

    client:      v ← β_l v + g(y; b);   y ← y − η_l v, from y = x and v = 0 in every round;   Δ = x − y
    fedavg_lm:   x ← x − η E[Δ]
    fedavg_glm:  m ← βm + E[Δ];   x ← x − ηm
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tff_momentum import trees
from tff_momentum.algorithm import Algorithm, named
from tff_momentum.algorithms.fedavg import averaging
from tff_momentum.algorithms.fedavgm import heavy_ball, server_momentum
from tff_momentum.client import Client
from tff_momentum.default_rates import LocalSgd, Rates, derives_rates
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.trees import Tree


def local_momentum_rates(sgd: LocalSgd, hyperparameters: Mapping[str, Any]) -> Rates:
  """Local momentum multiplies a constant gradient by Σ_k (1 − β_l^k)/(1 − β_l)/K in K steps from zero."""
  beta_l = schedule("beta_l", hyperparameters["beta_l"]).high
  steps = max(1, round(sgd.steps))
  gain = sum((1 - beta_l**k) / (1 - beta_l) for k in range(1, steps + 1)) / steps
  return {"client_learning_rate": sgd.learning_rate / gain}


def two_momenta_rates(sgd: LocalSgd, hyperparameters: Mapping[str, Any]) -> Rates:
  """The momentum of the clients and that of the server multiply, so the rate is a third of FedAvg-lm's."""
  return {
    name: float(rate) / 3 for name, rate in local_momentum_rates(sgd, hyperparameters).items()
  }


@named
@derives_rates(local_momentum_rates)
def fedavg_lm(
  *,
  client_learning_rate: float | Schedule,
  beta_l: float | Schedule = 0.9,
  server_learning_rate: float | Schedule = 1.0,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedAvg with momentum at the clients.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    beta_l: β_l in [0, 1), the clients' momentum, which starts at zero in every round; default 0.9.
    server_learning_rate: η > 0, a number or a schedule; default 1.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedavg_lm(client_learning_rate=0.1, beta_l=0.5).name
    'fedavg_lm'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  beta_l = schedule("beta_l", beta_l, at_least=0, below=1)

  def local_delta(client, x):
    return momentum_delta(client, x, eta_l(client.round), beta_l(client.round))

  return averaging(local_delta, server_learning_rate, client_weighting)


@named
@derives_rates(two_momenta_rates)
def fedavg_glm(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 1.0,
  beta: float | Schedule = 0.9,
  beta_l: float | Schedule = 0.9,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedAvg with momentum at the clients and at the server.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    server_learning_rate: η > 0, a number or a schedule; default 1.
    beta: β in [0, 1), the server's momentum; default 0.9.
    beta_l: β_l in [0, 1), the clients' momentum, which starts at zero in every round; default 0.9.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedavg_glm(client_learning_rate=0.1, beta=0.9).name
    'fedavg_glm'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  beta_l = schedule("beta_l", beta_l, at_least=0, below=1)

  def local_delta(client, x):
    return momentum_delta(client, x, eta_l(client.round), beta_l(client.round))

  server_update = heavy_ball(server_learning_rate, beta)
  beta = schedule("beta", beta)

  def momentum(state, t, steps):
    # Under a constant gradient g the K local momenta are (1 − β_l^k)/(1 − β_l) g, k = 1, ..., K.
    b = beta_l(t)
    in_all = (steps - b * (1 - b**steps) / (1 - b)) / (1 - b)
    return trees.per_step(trees.scale(1 - beta(t), state.d), eta_l(t), in_all)

  return server_momentum(local_delta, server_update, client_weighting, momentum)


def momentum_delta(client: Client, x: Tree, learning_rate: tf.Tensor, beta_l: tf.Tensor) -> Tree:
  """Returns Δ = x − y after local SGD with momentum from x; the momentum starts at zero."""

  def step(carry, grad):
    y, v = carry
    v = trees.map(lambda v, g: beta_l * v + g, v, grad(y))
    return trees.map(lambda y, v: y - learning_rate * v, y, v), v

  y, _ = client.steps(step, (x, trees.zeros_like(x)))
  return trees.subtract(x, y)
