"""FedExP: FedAvg or FedProx with a server learning rate from the clients' updates.

Divyansh Jhunjhunwala, Shiqiang Wang, Gauri Joshi, "FedExP: Speeding Up Federated Averaging via
Extrapolation", ICLR 2023. https://arxiv.org/abs/2301.09604

    client:  y ← y − η_l (g(y; b) + μ(y − x)), from y = x;   Δ = x − y;   sends Δ and ‖Δ‖²
    server:  η = max(1, E[‖Δ‖²] / (2(‖E[Δ]‖² + ε)));   x ← x − η E[Δ]

`tff_momentum.transforms.extrapolation` has the rule; `--transform=fedexp` applies it to other algorithms.
"""

from tff_momentum.algorithm import Algorithm, named
from tff_momentum.algorithms.fedavg import fedprox
from tff_momentum.schedules import Schedule
from tff_momentum.transforms.extrapolation import extrapolated


@named
def fedexp(
  *,
  client_learning_rate: float | Schedule,
  mu: float | Schedule = 0.0,
  epsilon: float | Schedule = 1e-3,
  evaluate: str = "last",
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedExP.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    mu: μ ≥ 0, the weight of FedProx's proximal term; default 0, for FedAvg.
    epsilon: ε ≥ 0, a number or a schedule; default 0.001. The authors use 0.1 for EMNIST.
    evaluate: the model to evaluate, the "last" (default) or the "mean_of_two" last.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedexp(client_learning_rate=0.1, epsilon=0.1).name
    'fedexp'
  """
  plain = fedprox(
    client_learning_rate=client_learning_rate, mu=mu, client_weighting=client_weighting
  )
  return extrapolated(plain, epsilon=epsilon, evaluate=evaluate)
