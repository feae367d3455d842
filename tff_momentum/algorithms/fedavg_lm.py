"""Local momentum: FedAvg-lm and FedAvg-glm, which FedGLOMO's authors compare with.

client:      v ← β_l v + g(y; b);  y ← y − η_l v, from y = x and v = 0 in every round;  Δ = x − y
fedavg_lm:   x ← x − η E[Δ]
fedavg_glm:  m ← βm + E[Δ];  x ← x − ηm
"""

from typing import Any

import tensorflow as tf

from tff_momentum import trees
from tff_momentum.algorithm import Algorithm
from tff_momentum.algorithms.fedavg import averaging
from tff_momentum.algorithms.fedgm import heavy_ball, server_momentum
from tff_momentum.client import Client
from tff_momentum.schedules import Schedule, schedule


def fedavg_lm(
  *,
  client_learning_rate: float | Schedule,
  beta_l: float | Schedule = 0.9,
  server_learning_rate: float | Schedule = 1.0,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedAvg with momentum at the clients.

  Args:
    client_learning_rate: η_l > 0.
    beta_l: β_l in [0, 1).
    server_learning_rate: η > 0.
    client_weighting: "uniform" or "num_examples".
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  beta_l = schedule("beta_l", beta_l, at_least=0, below=1)

  def local_delta(client, x):
    return momentum_delta(client, x, eta_l(client.round), beta_l(client.round))

  return averaging(local_delta, server_learning_rate, client_weighting)


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
    client_learning_rate: η_l > 0.
    server_learning_rate: η > 0.
    beta: β in [0, 1), at the server.
    beta_l: β_l in [0, 1), at the clients, from zero in every round.
    client_weighting: "uniform" or "num_examples".
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


def momentum_delta(client: Client, x: Any, learning_rate: tf.Tensor, beta_l: tf.Tensor) -> Any:
  """Δ = x − y after local SGD with momentum from x, the momentum starting at zero."""

  def step(carry, grad):
    y, v = carry
    v = trees.map(lambda v, g: beta_l * v + g, v, grad(y))
    return trees.map(lambda y, v: y - learning_rate * v, y, v), v

  y, _ = client.steps(step, (x, trees.zeros_like(x)))
  return trees.subtract(x, y)
