"""FedASGD: FedGM as accelerated SGD.

Jianhui Sun et al., "On the Role of Server Momentum in Federated Learning", AAAI 2024, section 3.
https://arxiv.org/abs/2312.12670
Rahul Kidambi et al., "On the insufficiency of existing momentum schemes for Stochastic Optimization",
ICLR 2018, Algorithm 1. https://arxiv.org/abs/1803.05591

    scheme:  a = 1 − ε²ξ/κ;   w̄ ← a w̄ + (1−a)(x − (κδ/ε) g);   x ← [ε(x − δg) + (1−a)w̄]/(ε + 1 − a)
    FedGM:   η = δε(1+ξ)/(1+ε);   β = (κ − ε²ξ)/(κ + εξ);   ν = (εξ − 1)/(ε(1+ξ))

The scheme's gradient g is E[Δ].
"""

from tff_momentum import validation
from tff_momentum.algorithm import Algorithm, named
from tff_momentum.algorithms.fedgm import fedgm
from tff_momentum.schedules import Schedule


@named
def fedasgd(
  *,
  client_learning_rate: float | Schedule,
  delta: float = 1.0,
  kappa: float = 1000.0,
  xi: float = 10.0,
  epsilon: float = 0.7,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedASGD, with Kidambi et al.'s defaults of κ, ξ and ε.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    delta: δ > 0, the short step; default 1, which is FedAvg's.
    kappa: κ > 0, the ratio of the long step to the short one; default 1000.
    xi: ξ in (0, κ/ε²], the statistical advantage; default 10.
    epsilon: ε in (0, 1]; default 0.7.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedasgd(client_learning_rate=0.1, kappa=100.0).name
    'fedasgd'
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
