"""Autonomous FedGM (On the Role of Server Momentum, Algorithm 4): clients that come and go as they please.

A client starts from the version that it sees, x of the round then, takes K_i steps, and arrives later:

    client:  y ← y − η_l g(y; b), from y = x of its start;  uploads Δ/K_i = (x − y)/K_i
    server:  whenever m updates have arrived, however old: FedGM's step on E[Δ/K]

autofedavg is autofedgm with ν = 0. Who arrives when is decided by `simulation.clock`.
"""

from collections.abc import Sequence

from tff_momentum import trees
from tff_momentum.algorithm import Algorithm
from tff_momentum.algorithms.fedavg import averaging, sgd_delta
from tff_momentum.algorithms.fedgm import general_momentum, server_momentum
from tff_momentum.algorithms.fedgm_stages import Stage, stage_schedules
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.transforms.asynchronous import asynchronous


def autofedgm(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 1.0,
  beta: float | Schedule = 0.9,
  nu: float | Schedule = 0.9,
  max_staleness: int = 10,
  client_weighting: str = "uniform",
) -> Algorithm:
  """Autonomous FedGM with one set of (η, β, ν), or with schedules of them.

  Args:
    client_learning_rate: η_l > 0, of the round in which a client starts.
    server_learning_rate: η > 0; about K times FedGM's, since uploads are divided by K.
    beta: β in [0, 1).
    nu: ν, as in FedGM.
    max_staleness: τ ≥ 1, how many rounds ago a client may have started.
    client_weighting: "uniform" or "num_examples".
  """
  server_update = general_momentum(server_learning_rate, beta, nu)
  local_delta = _normalised_delta(client_learning_rate)
  return asynchronous(server_momentum(local_delta, server_update, client_weighting), max_staleness)


def autofedgm_staged(
  *,
  client_learning_rate: float | Schedule,
  stages: Sequence[Stage] | str = "stages_from(1000, 3, 1.0, 0.7, 0.9)",
  max_staleness: int = 10,
  client_weighting: str = "uniform",
) -> Algorithm:
  """Autonomous Multistage FedGM: the whole of Algorithm 4.

  Args:
    client_learning_rate: η_l > 0, of the round in which a client starts.
    stages: (rounds, η, β, ν) each, as in `fedgm_staged`.
    max_staleness: τ ≥ 1, how many rounds ago a client may have started.
    client_weighting: "uniform" or "num_examples".
  """
  eta, beta, nu = stage_schedules(stages)
  return autofedgm(
    client_learning_rate=client_learning_rate,
    server_learning_rate=eta,
    beta=beta,
    nu=nu,
    max_staleness=max_staleness,
    client_weighting=client_weighting,
  )


def autofedavg(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 1.0,
  max_staleness: int = 10,
  client_weighting: str = "uniform",
) -> Algorithm:
  """Autonomous FedAvg, FedGM's baseline: no momentum, still dividing by K.

  Args:
    client_learning_rate: η_l > 0, of the round in which a client starts.
    server_learning_rate: η > 0; about K times FedAvg's, since uploads are divided by K.
    max_staleness: τ ≥ 1, how many rounds ago a client may have started.
    client_weighting: "uniform" or "num_examples".
  """
  local_delta = _normalised_delta(client_learning_rate)
  return asynchronous(averaging(local_delta, server_learning_rate, client_weighting), max_staleness)


def _normalised_delta(client_learning_rate: float | Schedule):
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)

  def local_delta(client, x):
    return trees.scale(1.0 / client.num_steps, sgd_delta(client, x, eta_l(client.round)))

  return local_delta
