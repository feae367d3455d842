"""Autonomous FedGM: asynchronous clients that start and arrive when they please.

Jianhui Sun, Xidong Wu, Heng Huang, Aidong Zhang, "On the Role of Server Momentum in Federated Learning",
AAAI 2024, Algorithm 4. https://arxiv.org/abs/2312.12670

A client starts from the model version that it sees, takes K_i steps, and arrives in a later round:

    client:  y ← y − η_l g(y; b), from y = x of its start;   uploads Δ/K_i = (x − y)/K_i
    server:  whenever m updates have arrived, however old: FedGM's step on E[Δ/K]

`autofedavg` is `autofedgm` with ν = 0. `simulation.clock` decides which client arrives when.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from tff_momentum import trees
from tff_momentum.algorithm import Algorithm, named
from tff_momentum.algorithms.fedavg import averaging, sgd_delta
from tff_momentum.algorithms.fedavgm import server_momentum
from tff_momentum.algorithms.fedgm import averaged_updates, general_momentum
from tff_momentum.algorithms.fedgm_staged import MomentumStage, default_stages, stage_schedules
from tff_momentum.client import Client
from tff_momentum.default_rates import LocalSgd, Rates, derives_rates, plain
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.transforms.asynchronous import asynchronous
from tff_momentum.trees import Tree


def normalised_uploads(sgd: LocalSgd, hyperparameters: Mapping[str, Any]) -> Rates:
  """Uploads are divided by K and stale, so the server's rate is 0.7 K times that of the synchronous form."""
  rate, rule = 0.7 * sgd.steps, averaged_updates if "beta" in hyperparameters else plain
  if "stages" in hyperparameters:
    return {**plain(sgd, {}), "stages": default_stages(rate)}
  found = {"server_learning_rate": 1.0, **rule(sgd, hyperparameters)}
  return {**found, "server_learning_rate": rate * float(found["server_learning_rate"])}


@named
@derives_rates(normalised_uploads)
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
    client_learning_rate: η_l > 0 of the round in which a client starts, a number or a schedule. Required.
    server_learning_rate: η > 0, a number or a schedule; about K times FedGM's; default 1.
    beta: β in [0, 1); default 0.9.
    nu: ν, as in `fedgm`; default 0.9.
    max_staleness: τ ≥ 1, the number of rounds that a client may arrive after its start; default 10.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> autofedgm(client_learning_rate=0.1, max_staleness=5).name
    'autofedgm'
  """
  server_update = general_momentum(server_learning_rate, beta, nu)
  local_delta = _normalised_delta(client_learning_rate)
  return asynchronous(server_momentum(local_delta, server_update, client_weighting), max_staleness)


@named
@derives_rates(normalised_uploads)
def autofedgm_staged(
  *,
  client_learning_rate: float | Schedule,
  stages: Sequence[MomentumStage] | str = "stages_from(1000, 3, 1.0, 0.7, 0.9)",
  max_staleness: int = 10,
  client_weighting: str = "uniform",
) -> Algorithm:
  """Autonomous Multistage FedGM: the whole of Algorithm 4.

  Args:
    client_learning_rate: η_l > 0 of the round in which a client starts, a number or a schedule. Required.
    stages: a list of (rounds, η, β, ν), or text that spells one, as in `fedgm_staged`.
    max_staleness: τ ≥ 1, the number of rounds that a client may arrive after its start; default 10.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range, or the stages break the order of eq. 3.

  Example:
    >>> autofedgm_staged(client_learning_rate=0.1, stages=[(100, 10.0, 0.7, 0.9)]).name
    'autofedgm_staged'
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


@named
@derives_rates(normalised_uploads)
def autofedavg(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 1.0,
  max_staleness: int = 10,
  client_weighting: str = "uniform",
) -> Algorithm:
  """Autonomous FedAvg, the baseline of FedGM, sec. 6.3: no momentum, but uploads are divided by K as well.

  Args:
    client_learning_rate: η_l > 0 of the round in which a client starts, a number or a schedule. Required.
    server_learning_rate: η > 0, a number or a schedule; about K times FedAvg's; default 1.
    max_staleness: τ ≥ 1, the number of rounds that a client may arrive after its start; default 10.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> autofedavg(client_learning_rate=0.1, server_learning_rate=10.0).name
    'autofedavg'
  """
  local_delta = _normalised_delta(client_learning_rate)
  return asynchronous(averaging(local_delta, server_learning_rate, client_weighting), max_staleness)


def _normalised_delta(client_learning_rate: float | Schedule) -> Callable[[Client, Tree], Tree]:
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)

  def local_delta(client, x):
    return trees.scale(1.0 / client.num_steps, sgd_delta(client, x, eta_l(client.round)))

  return local_delta
