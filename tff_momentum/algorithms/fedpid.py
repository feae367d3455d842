"""FedPID: FedGM as a PID controller.

Jianhui Sun et al., "On the Role of Server Momentum in Federated Learning", AAAI 2024, section 3.
https://arxiv.org/abs/2312.12670
Wangpeng An et al., "A PID Controller Approach for Stochastic Optimization of Deep Networks", CVPR 2018.
https://doi.org/10.1109/CVPR.2018.00889

    scheme:  e = −g;   v ← βv + (1−β)(e − e₋);   x = x⁰ + k_P e + k_I Σe + k_D v
    FedGM:   η = k_I;   β = k_D/(k_D − k_P);   ν = k_P²/(k_I k_D)

The scheme's gradient g is E[Δ].
"""

from tff_momentum import validation
from tff_momentum.algorithm import Algorithm, named
from tff_momentum.algorithms.fedgm import fedgm
from tff_momentum.schedules import Schedule


@named
def fedpid(
  *,
  client_learning_rate: float | Schedule,
  k_p: float = -1.0,
  k_i: float = 1.0,
  k_d: float = 2.0,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedPID.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    k_p: k_P < 0, the proportional gain; default −1.
    k_i: k_I > 0, the integral gain, which is η; default 1.
    k_d: k_D > 0, the derivative gain; default 2.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedpid(client_learning_rate=0.1, k_d=4.0).name
    'fedpid'
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
