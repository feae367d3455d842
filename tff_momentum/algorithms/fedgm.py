"""FedGM and FedNAG: general momentum at the server.

Jianhui Sun, Xidong Wu, Heng Huang, Aidong Zhang, "On the Role of Server Momentum in Federated Learning",
AAAI 2024, Algorithm 2 and eq. 2. https://arxiv.org/abs/2312.12670

    client:  FedAvg's;   Δ = x − y
    fedgm:   d ← (1−β)E[Δ] + βd;   h = (1−ν)E[Δ] + νd;   x ← x − η h
    fednag:  fedgm with ν = β
"""

from collections.abc import Mapping
from typing import Any

from tff_momentum import trees
from tff_momentum.algorithm import Algorithm, ServerUpdate, named
from tff_momentum.algorithms.fedavg import sgd_delta
from tff_momentum.algorithms.fedavgm import ServerState, server_momentum
from tff_momentum.default_rates import LocalSgd, Rates, derives_rates, plain, start_up_rate
from tff_momentum.schedules import Schedule, schedule


def averaged_updates(sgd: LocalSgd, hyperparameters: Mapping[str, Any]) -> Rates:
  """The momentum is a mean that starts at zero, so the server rate makes up for its first rounds."""
  beta = schedule("beta", hyperparameters["beta"]).high
  nu = schedule("nu", hyperparameters.get("nu", beta)).high
  return {**plain(sgd, {}), "server_learning_rate": start_up_rate(beta, nu)}


@named
@derives_rates(averaged_updates)
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
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    server_learning_rate: η > 0, a number or a schedule; default 1. FedGM, sec. 6.1, searches 0.5 to 5.
    beta: β in [0, 1); default 0.9, from the paper's grid 0.7, 0.9, 0.95.
    nu: ν; default 0.9, from the same grid. 0 is FedAvg, 1 is FedAvgM with rate η(1−β), β is FedNAG; some PID
      and ASGD schemes have ν outside [0, 1].
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedgm(client_learning_rate=0.1, beta=0.9, nu=0.7).name
    'fedgm'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)

  def local_delta(client, x):
    return sgd_delta(client, x, eta_l(client.round))

  def momentum(state, t, steps):
    return trees.per_step(state.d, eta_l(t), steps)

  server_update = general_momentum(server_learning_rate, beta, nu)
  return server_momentum(local_delta, server_update, client_weighting, momentum)


@named
@derives_rates(averaged_updates)
def fednag(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 1.0,
  beta: float | Schedule = 0.9,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedNAG (FedGM, sec. 3): Nesterov's accelerated gradient at the server.

  DiLoCo's outer step is the same with other rates: SGD with Nesterov momentum μ and learning rate γ is
  `fednag` with β = μ and η = γ/(1−μ). DiLoCo's γ = 0.7, μ = 0.9 is `server_learning_rate=7, beta=0.9`
  (Arthur Douillard et al., "DiLoCo", arXiv 2023, https://arxiv.org/abs/2311.08105).

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    server_learning_rate: η > 0, a number or a schedule; default 1.
    beta: β in [0, 1); default 0.9.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fednag(client_learning_rate=0.1, server_learning_rate=7.0, beta=0.9).name
    'fednag'
  """
  return fedgm(
    client_learning_rate=client_learning_rate,
    server_learning_rate=server_learning_rate,
    beta=beta,
    nu=beta,
    client_weighting=client_weighting,
  )


def general_momentum(
  server_learning_rate: float | Schedule, beta: float | Schedule, nu: float | Schedule
) -> ServerUpdate:
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
