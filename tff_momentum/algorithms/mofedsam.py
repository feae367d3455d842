"""MoFedSAM: FedSAM's sharpness-aware gradient, mixed with the server's last mean step as in FedCM.

Zhe Qu, Xingyu Li, Rui Duan, Yao Liu, Bo Tang, Zhuo Lu, "Generalized Federated Learning via Sharpness Aware
Minimization", ICML 2022. https://arxiv.org/abs/2206.02618

    client:  y ← y − η_l (α g̃ + (1−α) m), from y = x, g̃ as in `fedsam`;   Δ = x − y
    server:  m ← E[Δ/(η_l K_i)];   x ← x − η E[Δ]

Deviations: those of `fedsam`. K_i is each client's own number of steps.
"""

from collections.abc import Mapping
from typing import Any

from tff_momentum.algorithm import Algorithm, named
from tff_momentum.algorithms.fedcm import client_momentum, frozen_momentum
from tff_momentum.algorithms.fedsam import climb_length, uphill_gradient
from tff_momentum.default_rates import LocalSgd, Rates, derives_rates
from tff_momentum.schedules import Schedule, schedule


def frozen_momentum_and_climb(sgd: LocalSgd, hyperparameters: Mapping[str, Any]) -> Rates:
  """The momentum pushes K times, so the rate is 4/K times SGD's; the climb is a fifth of an SGD step."""
  return {**frozen_momentum(sgd, hyperparameters), "rho": climb_length(sgd)}


@named
@derives_rates(frozen_momentum_and_climb)
def mofedsam(
  *,
  client_learning_rate: float | Schedule,
  rho: float | Schedule = 0.1,
  alpha: float | Schedule = 0.1,
  server_learning_rate: float | Schedule = 1.0,
  client_weighting: str = "uniform",
) -> Algorithm:
  """MoFedSAM.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    rho: ρ ≥ 0, the length of the climb; 0 is FedCM. Default 0.1, as in FL-Simulator.
    alpha: α in (0, 1], the weight of the client's own gradient; 1 is FedSAM. Default 0.1, as in FL-Simulator.
    server_learning_rate: η > 0, a number or a schedule; default 1.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> mofedsam(client_learning_rate=0.1, rho=0.1, alpha=0.05).name
    'mofedsam'
  """
  rho = schedule("rho", rho, at_least=0)

  def local_gradient(grad, y, t):
    return uphill_gradient(grad, y, grad(y), rho(t))

  return client_momentum(
    local_gradient, client_learning_rate, alpha, server_learning_rate, client_weighting
  )
