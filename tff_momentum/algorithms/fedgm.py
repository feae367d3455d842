"""Server momentum: FedAvgM (Hsu et al. 2019) and FedGM (On the Role of Server Momentum, eq. 2).

client:  FedAvg's, Δ = x − y
fedavgm: m ← βm + E[Δ];                 x ← x − ηm
fedgm:   d ← (1−β)E[Δ] + βd;            x ← x − η h,  h = (1−ν)E[Δ] + νd
fednag:  fedgm with ν = β
"""

from typing import Any, NamedTuple

from tff_momentum import trees
from tff_momentum.algorithm import Algorithm, Exchange, Update
from tff_momentum.algorithms.fedavg import sgd_delta
from tff_momentum.schedules import Schedule, schedule


class ServerState(NamedTuple):
  """The model and the server's momentum."""

  x: Any
  d: Any


def fedavgm(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 1.0,
  beta: float | Schedule = 0.9,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedAvgM: heavy-ball momentum at the server.

  Args:
    client_learning_rate: η_l > 0.
    server_learning_rate: η > 0.
    beta: β in [0, 1).
    client_weighting: "uniform" or "num_examples".
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)

  def local_delta(client, x):
    return sgd_delta(client, x, eta_l(client.round))

  server_update = heavy_ball(server_learning_rate, beta)
  beta = schedule("beta", beta)

  def momentum(state, t, steps):  # under a constant gradient m = E[Δ] + βm
    return trees.per_step(trees.scale(1 - beta(t), state.d), eta_l(t), steps)

  return server_momentum(local_delta, server_update, client_weighting, momentum)


def fedgm(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 1.0,
  beta: float | Schedule = 0.9,
  nu: float | Schedule = 0.9,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedGM with one set of (η, β, ν), or with schedules of them.

  Args:
    client_learning_rate: η_l > 0.
    server_learning_rate: η > 0.
    beta: β in [0, 1).
    nu: ν; 0 is FedAvg, 1 is FedAvgM with η(1−β), β is FedNAG. Outside [0, 1] for some PID and ASGD.
    client_weighting: "uniform" or "num_examples".
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)

  def local_delta(client, x):
    return sgd_delta(client, x, eta_l(client.round))

  def momentum(state, t, steps):
    return trees.per_step(state.d, eta_l(t), steps)

  server_update = general_momentum(server_learning_rate, beta, nu)
  return server_momentum(local_delta, server_update, client_weighting, momentum)


def fednag(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 1.0,
  beta: float | Schedule = 0.9,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedNAG: Nesterov's accelerated gradient at the server.

  Args:
    client_learning_rate: η_l > 0.
    server_learning_rate: η > 0.
    beta: β in [0, 1).
    client_weighting: "uniform" or "num_examples".
  """
  return fedgm(
    client_learning_rate=client_learning_rate,
    server_learning_rate=server_learning_rate,
    beta=beta,
    nu=beta,
    client_weighting=client_weighting,
  )


def heavy_ball(server_learning_rate: float | Schedule, beta: float | Schedule) -> Any:
  """FedAvgM's server update: m ← βm + E[Δ], x ← x − ηm."""
  eta = schedule("server_learning_rate", server_learning_rate, above=0)
  beta = schedule("beta", beta, at_least=0, below=1)

  def server_update(state, delta, info):
    b = beta(info.round)
    m = trees.map(lambda m, d: b * m + d, state.d, delta)
    return ServerState(trees.map(lambda x, m: x - eta(info.round) * m, state.x, m), m)

  return server_update


def general_momentum(
  server_learning_rate: float | Schedule, beta: float | Schedule, nu: float | Schedule
) -> Any:
  """FedGM's server update: d ← (1−β)E[Δ] + βd, x ← x − η((1−ν)E[Δ] + νd)."""
  eta = schedule("server_learning_rate", server_learning_rate, above=0)
  beta = schedule("beta", beta, at_least=0, below=1)
  nu = schedule("nu", nu)

  def server_update(state, delta, info):
    b, v = beta(info.round), nu(info.round)
    d = trees.map(lambda d, new: (1 - b) * new + b * d, state.d, delta)
    h = trees.map(lambda new, d: (1 - v) * new + v * d, delta, d)
    return ServerState(trees.map(lambda x, h: x - eta(info.round) * h, state.x, h), d)

  return server_update


def server_momentum(
  local_delta: Any, server_update: Any, client_weighting: str, momentum: Any = None
) -> Algorithm:
  """The clients upload Δ = local_delta(client, x); the server keeps one direction (`momentum`)."""

  def client_update(client, x, state):
    return Update(upload=local_delta(client, x))

  return Algorithm(
    init_server=lambda x: ServerState(x, trees.zeros_like(x)),
    exchanges=(Exchange(lambda state, t: state.x, client_update, server_update),),
    model=lambda state: state.x,
    client_weighting=client_weighting,
    momentum=momentum,
  )
