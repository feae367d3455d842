"""FedPAQ and its momentum forms: FedAvg, FedAvg-lm and FedAvg-glm with quantised uploads.

Amirhossein Reisizadeh et al., "FedPAQ: A Communication-Efficient Federated Learning Method with Periodic
Averaging and Quantization", AISTATS 2020, Algorithm 1. https://arxiv.org/abs/1909.13014
Rudrajit Das et al., "Faster Non-Convex Federated Learning via Global and Local Momentum", UAI 2022, section 6
(FedPAQ-lm, FedPAQ-glm). https://arxiv.org/abs/2012.04061

    fedpaq, fedpaq_lm, fedpaq_glm:  fedavg, fedavg_lm, fedavg_glm with Q(Δ) for Δ

Q is QSGD (https://arxiv.org/abs/1610.02132).
"""

from tff_momentum.algorithm import Algorithm, named
from tff_momentum.algorithms.fedavg import fedavg
from tff_momentum.algorithms.fedavg_lm import (
  fedavg_glm,
  fedavg_lm,
  local_momentum_rates,
  two_momenta_rates,
)
from tff_momentum.default_rates import derives_rates
from tff_momentum.schedules import Schedule
from tff_momentum.transforms.compression import compressed, qsgd


@named
def fedpaq(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 1.0,
  bits: int = 8,
  norm: str = "l2",
  bucket: int | None = None,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedPAQ: FedAvg with quantised uploads.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    server_learning_rate: η > 0, a number or a schedule; default 1.
    bits: b ≥ 2 bits of QSGD; 32 disables compression. Default 8; FedGLOMO, sec. 6, runs 8 and 4.
    norm: what QSGD scales a bucket by, its "l2" norm (default) or its largest entry, "max".
    bucket: the number of coordinates that share a norm; all of a tensor by default.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedpaq(client_learning_rate=0.1, bits=4).name
    'fedpaq'
  """
  plain = fedavg(
    client_learning_rate=client_learning_rate,
    server_learning_rate=server_learning_rate,
    client_weighting=client_weighting,
  )
  return compressed(plain, qsgd(bits, norm, bucket))


@named
@derives_rates(local_momentum_rates)
def fedpaq_lm(
  *,
  client_learning_rate: float | Schedule,
  beta_l: float | Schedule = 0.9,
  server_learning_rate: float | Schedule = 1.0,
  bits: int = 8,
  norm: str = "l2",
  bucket: int | None = None,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedPAQ with momentum at the clients.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    beta_l: β_l in [0, 1), the clients' momentum; default 0.9.
    server_learning_rate: η > 0, a number or a schedule; default 1.
    bits: b ≥ 2 bits of QSGD; 32 disables compression. Default 8; FedGLOMO, sec. 6, runs 8 and 4.
    norm: what QSGD scales a bucket by, its "l2" norm (default) or its largest entry, "max".
    bucket: the number of coordinates that share a norm; all of a tensor by default.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedpaq_lm(client_learning_rate=0.1, bits=4).name
    'fedpaq_lm'
  """
  plain = fedavg_lm(
    client_learning_rate=client_learning_rate,
    beta_l=beta_l,
    server_learning_rate=server_learning_rate,
    client_weighting=client_weighting,
  )
  return compressed(plain, qsgd(bits, norm, bucket))


@named
@derives_rates(two_momenta_rates)
def fedpaq_glm(
  *,
  client_learning_rate: float | Schedule,
  beta: float | Schedule = 0.9,
  beta_l: float | Schedule = 0.9,
  server_learning_rate: float | Schedule = 1.0,
  bits: int = 8,
  norm: str = "l2",
  bucket: int | None = None,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedPAQ with momentum at the clients and at the server.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    beta: β in [0, 1), the server's momentum; default 0.9.
    beta_l: β_l in [0, 1), the clients' momentum; default 0.9.
    server_learning_rate: η > 0, a number or a schedule; default 1.
    bits: b ≥ 2 bits of QSGD; 32 disables compression. Default 8; FedGLOMO, sec. 6, runs 8 and 4.
    norm: what QSGD scales a bucket by, its "l2" norm (default) or its largest entry, "max".
    bucket: the number of coordinates that share a norm; all of a tensor by default.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedpaq_glm(client_learning_rate=0.1, bits=4).name
    'fedpaq_glm'
  """
  plain = fedavg_glm(
    client_learning_rate=client_learning_rate,
    beta=beta,
    beta_l=beta_l,
    server_learning_rate=server_learning_rate,
    client_weighting=client_weighting,
  )
  return compressed(plain, qsgd(bits, norm, bucket))
