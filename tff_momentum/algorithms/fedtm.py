"""FedTM: FedGM as triple momentum.

Jianhui Sun et al., "On the Role of Server Momentum in Federated Learning", AAAI 2024, section 3.
https://arxiv.org/abs/2312.12670
Bryan Van Scoy, Randy A. Freeman, Kevin M. Lynch, "The Fastest Known Globally Convergent First-Order Method
for Minimizing Strongly Convex Functions", IEEE Control Systems Letters 2018.
https://doi.org/10.1109/LCSYS.2017.2722406

    scheme:  triple momentum for L-smooth functions of condition number κ, with ρ = 1 − 1/√κ
    FedGM:   η = (1+ρ)(2−ρ)/(L(1−ρ)(2+ρ));   β = ρ²/(2−ρ);   ν = 2ρ/((1+ρ)(2−ρ))

The scheme's gradient is E[Δ].
"""

import math

from tff_momentum import validation
from tff_momentum.algorithm import Algorithm, named
from tff_momentum.algorithms.fedgm import fedgm
from tff_momentum.schedules import Schedule


@named
def fedtm(
  *,
  client_learning_rate: float | Schedule,
  L: float = 1.0,
  kappa: float = 10.0,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedTM.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    L: L > 0, the smoothness of E[Δ] taken as a gradient; local steps that do not overshoot have L ≤ 1.
      Default 1.
    kappa: κ ≥ 1, the condition number; default 10.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedtm(client_learning_rate=0.1, kappa=25.0).name
    'fedtm'
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
