"""FedAvg and FedProx: the server averages what clients reach by local SGD.

H. Brendan McMahan et al., "Communication-Efficient Learning of Deep Networks from Decentralized Data",
AISTATS 2017, Algorithm 1 (FedAvg). https://arxiv.org/abs/1602.05629
Tian Li et al., "Federated Optimization in Heterogeneous Networks", MLSys 2020, Algorithm 2 (FedProx).
https://arxiv.org/abs/1812.06127

    client:  fedavg   y ← y − η_l g(y; b), from y = x
             fedprox  y ← y − η_l (g(y; b) + μ(y − x)), from y = x
             Δ = x − y
    server:  x ← x − η E[Δ]

Deviations: the server learning rate η is not in the papers; η = 1 averages the models as they do.
"""

from collections.abc import Callable

import tensorflow as tf

from tff_momentum import trees
from tff_momentum.algorithm import Algorithm, Averaging, Exchange, Update, named
from tff_momentum.client import Client
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.trees import Tree


@named
def fedavg(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 1.0,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedAvg. With η = 1 the server averages the models; any other η makes it "two-sided" (FedGM, Algorithm 1).

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    server_learning_rate: η > 0, a number or a schedule; default 1.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedavg(client_learning_rate=0.1).name
    'fedavg'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)

  def local_delta(client, x):
    return sgd_delta(client, x, eta_l(client.round))

  return averaging(local_delta, server_learning_rate, client_weighting)


@named
def fedprox(
  *,
  client_learning_rate: float | Schedule,
  mu: float | Schedule = 0.01,
  server_learning_rate: float | Schedule = 1.0,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedProx: a proximal term pulls each client towards the model that it received.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    mu: μ ≥ 0, the weight of the proximal term; 0 is FedAvg. Default 0.01, from the grid 0.1, 0.01, 0.001 of
      GHBM, Table 6.
    server_learning_rate: η > 0, a number or a schedule; default 1.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedprox(client_learning_rate=0.1, mu=0.1).name
    'fedprox'
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
  local_delta: Callable[[Client, Tree], Tree],
  server_learning_rate: float | Schedule,
  client_weighting: str,
) -> Algorithm:
  """FedAvg's server: clients upload Δ = local_delta(client, x), and the server steps along its mean."""
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
    averaging=Averaging(),
  )


def sgd_delta(client: Client, x: Tree, learning_rate: tf.Tensor) -> Tree:
  """Returns Δ = x − y after plain local SGD from x, the client half of every server-step algorithm."""

  def step(y, grad):
    return trees.map(lambda y, g: y - learning_rate * g, y, grad(y))

  return trees.subtract(x, client.steps(step, x))
