"""Federated averaging (McMahan et al. 2017), and what differs from it at the clients alone.

client:  fedavg   y ← y − η_l g(y; b), from y = x
         fedprox  y ← y − η_l (g(y; b) + μ(y − x))
         Δ = x − y
server:  x ← x − η E[Δ]
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tff_momentum import trees
from tff_momentum.algorithm import Algorithm, Exchange, Update
from tff_momentum.client import Client
from tff_momentum.schedules import Schedule, schedule


def fedavg(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 1.0,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedAvg; with η = 1 the server averages the models, with any η it is "two-sided" FedSGD.

  Args:
    client_learning_rate: η_l > 0.
    server_learning_rate: η > 0.
    client_weighting: "uniform" or "num_examples".
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)

  def local_delta(client, x):
    return sgd_delta(client, x, eta_l(client.round))

  return averaging(local_delta, server_learning_rate, client_weighting)


def fedprox(
  *,
  client_learning_rate: float | Schedule,
  mu: float | Schedule = 0.01,
  server_learning_rate: float | Schedule = 1.0,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedProx (Li et al. 2020): each client is pulled back to the model that it was given.

  Args:
    client_learning_rate: η_l > 0.
    mu: μ ≥ 0; GHBM's authors tune it over 0.1, 0.01 and 0.001.
    server_learning_rate: η > 0.
    client_weighting: "uniform" or "num_examples".
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  mu = schedule("mu", mu, at_least=0)

  def local_delta(client, x):
    lr, pull = eta_l(client.round), mu(client.round)

    def step(y, grad):
      return trees.map(lambda y, g, x: y - lr * (g + pull * (y - x)), y, grad(y), x)

    return trees.subtract(x, client.steps(step, x))

  return averaging(local_delta, server_learning_rate, client_weighting)


def averaging(
  local_delta: Callable[[Client, Any], Any],
  server_learning_rate: float | Schedule,
  client_weighting: str,
) -> Algorithm:
  """The clients upload Δ = local_delta(client, x), and the server steps along its mean."""
  eta = schedule("server_learning_rate", server_learning_rate, above=0)

  def client_update(client, x, state):
    return Update(upload=local_delta(client, x))

  def server_update(x, delta, info):
    return trees.map(lambda x, d: x - eta(info.round) * d, x, delta)

  return Algorithm(
    init_server=lambda x: x,
    exchanges=(Exchange(lambda x, t: x, client_update, server_update),),
    model=lambda x: x,
    client_weighting=client_weighting,
  )


def sgd_delta(client: Client, x: Any, learning_rate: tf.Tensor) -> Any:
  """Δ = x − y after plain local SGD from x: the client half of every server-step algorithm."""

  def step(y, grad):
    return trees.map(lambda y, g: y - learning_rate * g, y, grad(y))

  return trees.subtract(x, client.steps(step, x))
