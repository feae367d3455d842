"""Multistage FedGM (On the Role of Server Momentum, Algorithm 3): (η, β, ν) by stages, d carried over."""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

from tff_momentum import call_syntax, validation
from tff_momentum.algorithm import Algorithm
from tff_momentum.algorithms.fedgm import fedgm
from tff_momentum.schedules import Schedule, multistage


class Stage(NamedTuple):
  """T_s rounds with (η_s, β_s, ν_s)."""

  rounds: int
  eta: float
  beta: float
  nu: float


def fedgm_staged(
  *,
  client_learning_rate: float | Schedule,
  stages: Sequence[Stage] | str = "stages_from(1000, 3, 1.0, 0.7, 0.9)",
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedGM's Algorithm 3: stage after stage, d carried over.

  Args:
    client_learning_rate: η_l > 0.
    stages: (rounds, η, β, ν) each, by hand or from `stages_from`, or a text that spells either; η falls
      and β rises (eq. 3), and the last stage stays.
    client_weighting: "uniform" or "num_examples".
  """
  eta, beta, nu = stage_schedules(stages)
  return fedgm(
    client_learning_rate=client_learning_rate,
    server_learning_rate=eta,
    beta=beta,
    nu=nu,
    client_weighting=client_weighting,
  )


def stage_schedules(stages: Sequence[Stage] | str) -> tuple[Schedule, Schedule, Schedule]:
  """η, β and ν over the rounds; raises ValueError for stages that break the order of eq. 3."""
  if isinstance(stages, str):
    stages = call_syntax.evaluate("stages", stages, {"stages_from": stages_from})
  try:
    stages = [Stage(*stage) for stage in stages]
  except TypeError:
    raise ValueError(
      f"stages must be a list of (rounds, eta, beta, nu), four numbers each; found {stages!r}."
    ) from None
  lengths = [stage.rounds for stage in stages]
  eta, beta, nu = (multistage(lengths, [stage[i] for stage in stages]) for i in (1, 2, 3))
  for earlier, later in itertools.pairwise(stages):
    if later.eta > earlier.eta or later.beta < earlier.beta:
      raise ValueError(
        "stages must have eta falling and beta rising (eq. 3 of FedGM); found "
        f"{tuple(earlier)} before {tuple(later)}."
      )
  return eta, beta, nu


def stages_from(
  rounds: int, stages: int, eta: float, beta: float, nu: float, drop: float = 2.0
) -> list[Stage]:
  """Stages that keep W₁ = ηβν/(1−β) and W₂ = Tη constant (eq. 3): η falls by `drop` each time.

  T_s is in proportion to 1/η_s, with the cumulative ends rounded.
  """
  validation.integer("stages", stages, at_least=1)
  validation.integer("rounds", rounds, at_least=stages)
  validation.number("drop", drop, at_least=1)
  validation.number("beta", beta, at_least=0, below=1)
  shares = [drop**s for s in range(stages)]
  ends = [round(rounds * sum(shares[: s + 1]) / sum(shares)) for s in range(stages)]
  odds = [drop**s * beta / (1 - beta) for s in range(stages)]
  return [
    Stage(end - start, eta / drop**s, odds[s] / (1 + odds[s]), nu)
    for s, (start, end) in enumerate(zip([0, *ends], ends, strict=False))
  ]
