"""Momentum schemes that FedGM contains (On the Role of Server Momentum): each is FedGM at some (η, β, ν).

The gradient g of a scheme is E[Δ], and the server's model is the point at which the scheme takes it.

fedsnv   ξ⁺ = ξ + β₁(ξ − ξ₋) − α g(x), x = ξ + β₂(ξ − ξ₋)
fedpid   e = −g, v ← βv + (1−β)(e − e₋), x = x⁰ + k_P e + k_I Σe + k_D v
fedasgd  a = 1 − ε²ξ/κ, w̄ ← a w̄ + (1−a)(x − (κδ/ε)g), x ← [ε(x − δg) + (1−a)w̄]/(ε + 1 − a)
fedtm    triple momentum for L-smooth functions of condition number κ, ρ = 1 − 1/√κ
"""

import math

from tff_momentum import validation
from tff_momentum.algorithm import Algorithm
from tff_momentum.algorithms.fedgm import fedgm
from tff_momentum.schedules import Schedule


def fedsnv(
  *,
  client_learning_rate: float | Schedule,
  alpha: float = 0.1,
  beta1: float = 0.9,
  beta2: float = 0.9,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedGM as the scheme of Lessard, Recht and Packard (2016); the defaults are FedNAG's.

  Args:
    client_learning_rate: η_l > 0.
    alpha: α > 0, the step; η = α/(1−β₁).
    beta1: β₁ in (0, 1), the momentum.
    beta2: β₂ ≥ 0, how far ahead the gradient is taken; 0 is heavy ball, β₁ is Nesterov's.
    client_weighting: "uniform" or "num_examples".
  """
  validation.number("alpha", alpha, above=0)
  validation.number("beta1", beta1, above=0, below=1)
  validation.number("beta2", beta2, at_least=0)
  return fedgm(
    client_learning_rate=client_learning_rate,
    server_learning_rate=alpha / (1 - beta1),
    beta=beta1,
    nu=1 - beta2 * (1 - beta1) / beta1,
    client_weighting=client_weighting,
  )


def fedpid(
  *,
  client_learning_rate: float | Schedule,
  k_p: float = -1.0,
  k_i: float = 1.0,
  k_d: float = 2.0,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedGM as a PID controller (An et al. 2018).

  Args:
    client_learning_rate: η_l > 0.
    k_p: k_P < 0, the proportional gain.
    k_i: k_I > 0, the integral gain, which is η.
    k_d: k_D > 0, the derivative gain.
    client_weighting: "uniform" or "num_examples".
  """
  validation.number("k_p", k_p, below=0)
  validation.number("k_i", k_i, above=0)
  validation.number("k_d", k_d, above=0)
  return fedgm(
    client_learning_rate=client_learning_rate,
    server_learning_rate=k_i,
    beta=k_d / (k_d - k_p),
    nu=k_p**2 / (k_i * k_d),
    client_weighting=client_weighting,
  )


def fedasgd(
  *,
  client_learning_rate: float | Schedule,
  delta: float = 1.0,
  kappa: float = 1000.0,
  xi: float = 10.0,
  epsilon: float = 0.7,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedGM as accelerated SGD (Kidambi et al. 2018, Algorithm 1), with their defaults of κ, ξ and ε.

  Args:
    client_learning_rate: η_l > 0.
    delta: δ > 0, the short step; 1 is FedAvg's.
    kappa: κ > 0, the ratio of the long step to the short one.
    xi: ξ > 0, the statistical advantage, at most κ/ε².
    epsilon: ε in (0, 1].
    client_weighting: "uniform" or "num_examples".
  """
  validation.number("delta", delta, above=0)
  validation.number("kappa", kappa, above=0)
  validation.number("epsilon", epsilon, above=0, at_most=1)
  validation.number("xi", xi, above=0, at_most=kappa / epsilon**2)
  return fedgm(
    client_learning_rate=client_learning_rate,
    server_learning_rate=delta * epsilon * (1 + xi) / (1 + epsilon),
    beta=(kappa - epsilon**2 * xi) / (kappa + epsilon * xi),
    nu=(epsilon * xi - 1) / (epsilon * (1 + xi)),
    client_weighting=client_weighting,
  )


def fedtm(
  *,
  client_learning_rate: float | Schedule,
  L: float = 1.0,
  kappa: float = 10.0,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedGM as triple momentum (Van Scoy, Freeman and Lynch 2018).

  Args:
    client_learning_rate: η_l > 0.
    L: L > 0, the smoothness of E[Δ] as a gradient; local steps that do not overshoot have L ≤ 1.
    kappa: κ ≥ 1, the condition number.
    client_weighting: "uniform" or "num_examples".
  """
  validation.number("L", L, above=0)
  validation.number("kappa", kappa, at_least=1)
  rho = 1 - 1 / math.sqrt(kappa)
  return fedgm(
    client_learning_rate=client_learning_rate,
    server_learning_rate=(1 + rho) * (2 - rho) / (L * (1 - rho) * (2 + rho)),
    beta=rho**2 / (2 - rho),
    nu=2 * rho / ((1 + rho) * (2 - rho)),
    client_weighting=client_weighting,
  )
