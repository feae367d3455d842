"""Multistage FedGM: (η, β, ν) change by stages, and the momentum d carries over.

Jianhui Sun, Xidong Wu, Heng Huang, Aidong Zhang, "On the Role of Server Momentum in Federated Learning",
AAAI 2024, Algorithm 3. https://arxiv.org/abs/2312.12670

    in stage s, for T_s rounds:  d ← (1−β_s)E[Δ] + β_s d;   x ← x − η_s((1−ν_s)E[Δ] + ν_s d)
    constraints (eq. 3):         η_s β_s ν_s/(1−β_s) = W₁ and T_s η_s = W₂ in every stage
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from tff_momentum import call_syntax, validation
from tff_momentum.algorithm import Algorithm, named
from tff_momentum.algorithms.fedgm import fedgm
from tff_momentum.default_rates import LocalSgd, Rates, derives_rates, plain, start_up_rate
from tff_momentum.schedules import Schedule, multistage


class MomentumStage(NamedTuple):
  """One stage: T_s rounds with (η_s, β_s, ν_s)."""

  rounds: int
  eta: float
  beta: float
  nu: float


def averaged_updates(sgd: LocalSgd, hyperparameters: Mapping[str, Any]) -> Rates:
  """The momentum is a mean that starts at zero, so the first stage's η makes up for its first rounds."""
  return {**plain(sgd, {}), "stages": default_stages(1.0)}


def default_stages(eta: float) -> str:
  """Three stages from β = 0.7, ν = 0.9, with η times the rate that makes up for the momentum's late start."""
  return f"stages_from(1000, 3, {eta * start_up_rate(0.7, 0.9):.3g}, 0.7, 0.9)"


@named
@derives_rates(averaged_updates)
def fedgm_staged(
  *,
  client_learning_rate: float | Schedule,
  stages: Sequence[MomentumStage] | str = "stages_from(1000, 3, 1.0, 0.7, 0.9)",
  client_weighting: str = "uniform",
) -> Algorithm:
  """Multistage FedGM.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    stages: a list of (rounds, η, β, ν), or text that spells a list or a call of `stages_from`. η must not
      rise and β must not fall (eq. 3); the last stage never ends. Default "stages_from(1000, 3, 1.0, 0.7,
      0.9)".
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range, or the stages break the order of eq. 3.

  Example:
    >>> fedgm_staged(client_learning_rate=0.1, stages=[(100, 1.0, 0.7, 0.9), (200, 0.5, 0.8, 0.9)]).name
    'fedgm_staged'
  """
  eta, beta, nu = stage_schedules(stages)
  return fedgm(
    client_learning_rate=client_learning_rate,
    server_learning_rate=eta,
    beta=beta,
    nu=nu,
    client_weighting=client_weighting,
  )


def stage_schedules(stages: Sequence[MomentumStage] | str) -> tuple[Schedule, Schedule, Schedule]:
  """Returns η, β and ν as schedules over the rounds.

  Raises:
    ValueError: the stages are malformed, or break the order of eq. 3.
  """
  if isinstance(stages, str):
    stages = call_syntax.evaluate(
      "stages",
      stages,
      {"stages_from": stages_from},
      literal="a list of (rounds, eta, beta, nu)",
    )
  try:
    stages = [MomentumStage(*stage) for stage in stages]
  except TypeError:
    raise ValueError(
      f"stages must be a list of (rounds, eta, beta, nu), four numbers each; found {stages!r}."
    ) from None
  lengths = [stage.rounds for stage in stages]
  eta, beta, nu = (multistage(lengths, [stage[i] for stage in stages]) for i in (1, 2, 3))
  for earlier, later in itertools.pairwise(stages):
    if later.eta > earlier.eta or later.beta < earlier.beta:
      raise ValueError(
        "stages must have eta falling and beta rising (FedGM, eq. 3); found "
        f"{tuple(earlier)} before {tuple(later)}."
      )
  return eta, beta, nu


def stages_from(
  rounds: int, stages: int, eta: float, beta: float, nu: float, drop: float = 2.0
) -> list[MomentumStage]:
  """Returns stages that keep W₁ = ηβν/(1−β) and W₂ = Tη constant (FedGM, eq. 3).

  Args:
    rounds: T, the rounds of all stages together. T_s is proportional to 1/η_s; the cumulative ends are
      rounded.
    stages: S, the number of stages.
    eta: η₁.
    beta: β₁ in [0, 1).
    nu: ν, the same in every stage.
    drop: the factor ≥ 1 by which η falls from stage to stage.

  Example:
    >>> [stage.rounds for stage in stages_from(1000, 3, 2.0, 0.7, 0.9)]
    [143, 286, 571]
  """
  validation.integer("stages", stages, at_least=1)
  validation.integer("rounds", rounds, at_least=stages)
  validation.number("drop", drop, at_least=1)
  validation.number("beta", beta, at_least=0, below=1)
  shares = [drop**s for s in range(stages)]
  ends = [round(rounds * sum(shares[: s + 1]) / sum(shares)) for s in range(stages)]
  odds = [drop**s * beta / (1 - beta) for s in range(stages)]
  return [
    MomentumStage(end - start, eta / drop**s, odds[s] / (1 + odds[s]), nu)
    for s, (start, end) in enumerate(zip([0, *ends], ends, strict=False))
  ]
