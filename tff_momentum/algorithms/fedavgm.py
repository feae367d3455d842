"""FedAvgM: heavy-ball momentum at the server.

Tzu-Ming Harry Hsu, Hang Qi, Matthew Brown, "Measuring the Effects of Non-Identical Data Distribution for
Federated Visual Classification", arXiv 2019, section 3.3. https://arxiv.org/abs/1909.06335

    client:  FedAvg's;   Δ = x − y
    server:  m ← βm + E[Δ];   x ← x − ηm
"""

from collections.abc import Callable
from typing import NamedTuple

from tff_momentum import trees
from tff_momentum.algorithm import Algorithm, Exchange, Momentum, ServerUpdate, Update, named
from tff_momentum.algorithms.fedavg import sgd_delta
from tff_momentum.client import Client
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.trees import Tree


class ServerState(NamedTuple):
  """The model and the server's momentum."""

  x: Tree
  d: Tree


@named
def fedavgm(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 1.0,
  beta: float | Schedule = 0.9,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedAvgM.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    server_learning_rate: η > 0, a number or a schedule; default 1.
    beta: β in [0, 1); 0 is FedAvg. Default 0.9; GHBM, Table 6, also searches 0.99.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedavgm(client_learning_rate=0.1, beta=0.9).name
    'fedavgm'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)

  def local_delta(client, x):
    return sgd_delta(client, x, eta_l(client.round))

  server_update = heavy_ball(server_learning_rate, beta)
  beta = schedule("beta", beta)

  def momentum(state, t, steps):  # under a constant gradient m = E[Δ] + βm
    return trees.per_step(trees.scale(1 - beta(t), state.d), eta_l(t), steps)

  return server_momentum(local_delta, server_update, client_weighting, momentum)


def heavy_ball(server_learning_rate: float | Schedule, beta: float | Schedule) -> ServerUpdate:
  """FedAvgM's server update: m ← βm + E[Δ], x ← x − ηm."""
  eta = schedule("server_learning_rate", server_learning_rate, above=0)
  beta = schedule("beta", beta, at_least=0, below=1)

  def server_update(state, delta, info):
    b = beta(info.round)
    m = trees.map(lambda m, d: b * m + d, state.d, delta)
    return ServerState(trees.map(lambda x, m: x - eta(info.round) * m, state.x, m), m)

  return server_update


def server_momentum(
  local_delta: Callable[[Client, Tree], Tree],
  server_update: ServerUpdate,
  client_weighting: str,
  momentum: Momentum | None = None,
) -> Algorithm:
  """Clients upload Δ = local_delta(client, x); the server keeps one direction d beside the model.

  Args:
    local_delta: (client, x) -> Δ.
    server_update: (`ServerState`, E[Δ], round info) -> `ServerState`.
    client_weighting: "uniform" or "num_examples".
    momentum: `Algorithm.momentum`, if d estimates a gradient.
  """

  def client_update(client, x, state):
    return Update(upload=local_delta(client, x))

  return Algorithm(
    init_server=lambda x: ServerState(x, trees.zeros_like(x)),
    exchanges=(Exchange(lambda state, t: state.x, client_update, server_update),),
    model=lambda state: state.x,
    client_weighting=client_weighting,
    momentum=momentum,
  )
