"""FedSNV: FedGM as the synthesized Nesterov variant of Lessard, Recht and Packard.

Jianhui Sun et al., "On the Role of Server Momentum in Federated Learning", AAAI 2024, section 3.
https://arxiv.org/abs/2312.12670
Laurent Lessard, Benjamin Recht, Andrew Packard, "Analysis and Design of Optimization Algorithms via Integral
Quadratic Constraints", SIAM Journal on Optimization 2016. https://arxiv.org/abs/1408.3595

    scheme:  ξ⁺ = ξ + β₁(ξ − ξ₋) − α g(x);   x = ξ + β₂(ξ − ξ₋)
    FedGM:   η = α/(1−β₁);   β = β₁;   ν = 1 − β₂(1−β₁)/β₁

The scheme's gradient g is E[Δ], and the server's model is the point x where the scheme takes it.
"""

from collections.abc import Mapping
from typing import Any

from tff_momentum import validation
from tff_momentum.algorithm import Algorithm, named
from tff_momentum.algorithms.fedgm import fedgm
from tff_momentum.default_rates import LocalSgd, Rates, derives_rates, plain, start_up_rate
from tff_momentum.schedules import Schedule


def averaged_updates(sgd: LocalSgd, hyperparameters: Mapping[str, Any]) -> Rates:
  """The momentum is a mean that starts at zero, so the step α makes up for its first 1/(1 − β₁) rounds."""
  beta1, beta2 = hyperparameters["beta1"], hyperparameters["beta2"]
  nu = 1 - beta2 * (1 - beta1) / beta1
  return {**plain(sgd, {}), "alpha": (1 - beta1) * start_up_rate(beta1, nu)}


@named
@derives_rates(averaged_updates)
def fedsnv(
  *,
  client_learning_rate: float | Schedule,
  alpha: float = 0.1,
  beta1: float = 0.9,
  beta2: float = 0.9,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedSNV; the defaults are FedNAG's.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    alpha: α > 0, the step; default 0.1, so that η = 1.
    beta1: β₁ in (0, 1), the momentum; default 0.9.
    beta2: β₂ ≥ 0, how far ahead the gradient is taken: 0 is heavy ball, β₁ is Nesterov's. Default 0.9.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedsnv(client_learning_rate=0.1, beta2=0.5).name
    'fedsnv'
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
