"""Federated averaging (McMahan et al. 2017), and what differs from it at the clients alone.

client:  y ← y − η_l g(y; b), from y = x;  Δ = x − y
server:  x ← x − η E[Δ]
"""

from typing import Any

import tensorflow as tf

from tff_momentum import trees
from tff_momentum.algorithm import Algorithm, Exchange, Update
from tff_momentum.local import Client
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
  eta = schedule("server_learning_rate", server_learning_rate, above=0)

  def client_update(client, x, state):
    return Update(upload=sgd_delta(client, x, eta_l(client.round)))

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
