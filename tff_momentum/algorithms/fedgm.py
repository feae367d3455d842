"""Server momentum: FedAvgM (Hsu et al. 2019) and FedGM (On the Role of Server Momentum, eq. 2 and Alg. 3).

client:  FedAvg's, Δ = x − y
fedavgm: m ← βm + E[Δ];                 x ← x − ηm
fedgm:   d ← (1−β)E[Δ] + βd;            x ← x − η h,  h = (1−ν)E[Δ] + νd
"""

import itertools
from collections.abc import Sequence
from typing import Any, NamedTuple

from tff_momentum import checks, trees
from tff_momentum.algorithm import Algorithm, Exchange, Update
from tff_momentum.algorithms.fedavg import sgd_delta
from tff_momentum.schedules import Schedule, multistage, schedule


class ServerState(NamedTuple):
  """The model and the server's momentum."""

  x: Any
  d: Any


class Stage(NamedTuple):
  """A stage of FedGM's Algorithm 3: T_s rounds with (η_s, β_s, ν_s)."""

  rounds: int
  eta: float
  beta: float
  nu: float


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
  eta = schedule("server_learning_rate", server_learning_rate, above=0)
  beta = schedule("beta", beta, at_least=0, below=1)

  def server_update(state, delta, info):
    b = beta(info.round)
    m = trees.map(lambda m, d: b * m + d, state.d, delta)
    return ServerState(trees.map(lambda x, m: x - eta(info.round) * m, state.x, m), m)

  return _server_momentum(client_learning_rate, server_update, client_weighting)


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
  eta = schedule("server_learning_rate", server_learning_rate, above=0)
  beta = schedule("beta", beta, at_least=0, below=1)
  nu = schedule("nu", nu)

  def server_update(state, delta, info):
    b, v = beta(info.round), nu(info.round)
    d = trees.map(lambda d, new: (1 - b) * new + b * d, state.d, delta)
    h = trees.map(lambda new, d: (1 - v) * new + v * d, delta, d)
    return ServerState(trees.map(lambda x, h: x - eta(info.round) * h, state.x, h), d)

  return _server_momentum(client_learning_rate, server_update, client_weighting)


def fedgm_staged(
  *,
  client_learning_rate: float | Schedule,
  stages: Sequence[Stage],
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedGM's Algorithm 3: stage after stage, d carried over.

  Args:
    client_learning_rate: η_l > 0.
    stages: (rounds, η, β, ν) each, by hand or from `stages_from`; η falls and β rises (eq. 3).
    client_weighting: "uniform" or "num_examples".
  """
  stages = [Stage(*stage) for stage in stages]
  if not stages:
    raise ValueError("stages must hold at least one (rounds, eta, beta, nu); found none.")
  for earlier, later in itertools.pairwise(stages):
    if later.eta > earlier.eta or later.beta < earlier.beta:
      raise ValueError(
        "stages must have eta falling and beta rising (eq. 3 of FedGM); found "
        f"{tuple(earlier)} before {tuple(later)}."
      )
  lengths = [stage.rounds for stage in stages]
  eta, beta, nu = (multistage(lengths, [stage[i] for stage in stages]) for i in (1, 2, 3))
  return fedgm(
    client_learning_rate=client_learning_rate,
    server_learning_rate=eta,
    beta=beta,
    nu=nu,
    client_weighting=client_weighting,
  )


def stages_from(
  rounds: int, stages: int, eta: float, beta: float, nu: float, drop: float = 2.0
) -> list[Stage]:
  """Stages that keep W₁ = ηβν/(1−β) and W₂ = Tη constant (eq. 3): η falls by `drop` each time.

  T_s is in proportion to 1/η_s, with the cumulative ends rounded.
  """
  checks.integer("stages", stages, at_least=1)
  checks.integer("rounds", rounds, at_least=stages)
  checks.number("drop", drop, at_least=1)
  checks.number("beta", beta, at_least=0, below=1)
  shares = [drop**s for s in range(stages)]
  ends = [round(rounds * sum(shares[: s + 1]) / sum(shares)) for s in range(stages)]
  odds = [drop**s * beta / (1 - beta) for s in range(stages)]
  return [
    Stage(end - start, eta / drop**s, odds[s] / (1 + odds[s]), nu)
    for s, (start, end) in enumerate(zip([0, *ends], ends, strict=False))
  ]


def _server_momentum(client_learning_rate, server_update, client_weighting) -> Algorithm:
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)

  def client_update(client, x, state):
    return Update(upload=sgd_delta(client, x, eta_l(client.round)))

  return Algorithm(
    init_server=lambda x: ServerState(x, trees.zeros_like(x)),
    exchanges=(Exchange(lambda state, t: state.x, client_update, server_update),),
    model=lambda state: state.x,
    client_weighting=client_weighting,
  )
