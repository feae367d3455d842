"""FedGM: eq. 2, Algorithm 3 with its stages, and the momentum schemes that FedGM contains.

The maps from SNV, PID, ASGD and triple momentum to (η, β, ν) are checked against each scheme's own
recursion in `published`.
"""

from collections.abc import Sequence

import numpy as np

from tests.oracle.problem import Trace, at, mean, rounds, trace
from tests.oracle.server_step import local_sgd

Stage = tuple[int, float, float, float]  # length, η, β, ν
Triple = tuple[float, float, float]  # η, β, ν


def fedgm(
  problem,
  cohorts,
  *,
  client_learning_rate,
  server_learning_rate=1.0,
  beta=None,
  nu=None,
  stages: Sequence[Stage] | None = None,
  client_weighting="uniform",
) -> Trace:
  """d ← (1−β)E[Δ] + βd, h = (1−ν)E[Δ] + νd, x⁺ = x − ηh; `stages` replaces (η, β, ν)."""
  x, d, after = problem.x0, np.zeros_like(problem.x0), {}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    if stages is None:
      eta_s, beta_s, nu_s = at(server_learning_rate, t), beta, nu
    else:
      eta_s, beta_s, nu_s = stage_of(stages, t)
    Delta = E([local_sgd(problem, i, x, eta_l) for i in S])
    d = (1 - beta_s) * Delta + beta_s * d
    h = (1 - nu_s) * Delta + nu_s * d
    x = x - eta_s * h
    after[t] = x
  return trace(problem, cohorts, after, {"d": d})


def stage_of(stages: Sequence[Stage], t: int) -> Triple:
  """(η_s, β_s, ν_s) of the stage that round t lies in; the last one never ends."""
  for length, *triple in stages[:-1]:
    if t < length:
      return tuple(triple)
    t -= length
  return tuple(stages[-1][1:])


def stages_from(
  T: int, S: int, eta1: float, beta1: float, nu: float, drop: float = 2
) -> list[Stage]:
  """Stages of "constant and drop" that keep W₁ = ηβν/(1−β) and W₂ = T_s η_s (FedGM, eq. 3)."""
  eta = [eta1 / drop**s for s in range(S)]
  odds = [eta1 / e * beta1 / (1 - beta1) for e in eta]  # β_s/(1−β_s)
  share = np.cumsum([1 / e for e in eta]) / sum(1 / e for e in eta)
  ends = [0] + [int(np.floor(T * c + 0.5)) for c in share]
  return [(ends[s + 1] - ends[s], eta[s], odds[s] / (1 + odds[s]), nu) for s in range(S)]


def fednag(problem, cohorts, *, beta, **hyperparameters) -> Trace:
  """FedGM with ν = β."""
  return fedgm(problem, cohorts, beta=beta, nu=beta, **hyperparameters)


def snv(alpha: float, beta1: float, beta2: float) -> Triple:
  """(η, β, ν) of SNV(α, β₁, β₂)."""
  return alpha / (1 - beta1), beta1, 1 - beta2 * (1 - beta1) / beta1


def pid(k_p: float, k_i: float, k_d: float) -> Triple:
  """(η, β, ν) of PID(k_P, k_I, k_D); needs k_P < 0 < k_D."""
  return k_i, k_d / (k_d - k_p), k_p**2 / (k_i * k_d)


def asgd(delta: float, kappa: float, xi: float, epsilon: float = 0.7) -> Triple:
  """(η, β, ν) of ASGD(δ, κ, ξ, ε)."""
  return (
    delta * epsilon * (1 + xi) / (1 + epsilon),
    (kappa - epsilon**2 * xi) / (kappa + epsilon * xi),
    (epsilon * xi - 1) / (epsilon * (1 + xi)),
  )


def triple_momentum(L: float, kappa: float) -> Triple:
  """(η, β, ν) of triple momentum for L-smooth functions of condition number κ."""
  rho = 1 - 1 / np.sqrt(kappa)
  return (
    (1 + rho) * (2 - rho) / (L * (1 - rho) * (2 + rho)),
    rho**2 / (2 - rho),
    2 * rho / ((1 + rho) * (2 - rho)),
  )


def _at(problem, cohorts, triple: Triple, client_learning_rate, client_weighting) -> Trace:
  eta, beta, nu = triple
  return fedgm(
    problem,
    cohorts,
    client_learning_rate=client_learning_rate,
    server_learning_rate=eta,
    beta=beta,
    nu=nu,
    client_weighting=client_weighting,
  )


def fedsnv(
  problem, cohorts, *, client_learning_rate, alpha, beta1, beta2, client_weighting="uniform"
) -> Trace:
  """FedGM as SNV."""
  triple = snv(alpha, beta1, beta2)
  return _at(problem, cohorts, triple, client_learning_rate, client_weighting)


def fedpid(
  problem, cohorts, *, client_learning_rate, k_p, k_i, k_d, client_weighting="uniform"
) -> Trace:
  """FedGM as PID control."""
  triple = pid(k_p, k_i, k_d)
  return _at(problem, cohorts, triple, client_learning_rate, client_weighting)


def fedasgd(
  problem,
  cohorts,
  *,
  client_learning_rate,
  delta,
  kappa,
  xi,
  epsilon=0.7,
  client_weighting="uniform",
) -> Trace:
  """FedGM as ASGD."""
  triple = asgd(delta, kappa, xi, epsilon)
  return _at(problem, cohorts, triple, client_learning_rate, client_weighting)


def fedtm(problem, cohorts, *, client_learning_rate, L, kappa, client_weighting="uniform") -> Trace:
  """FedGM as triple momentum."""
  triple = triple_momentum(L, kappa)
  return _at(problem, cohorts, triple, client_learning_rate, client_weighting)
