"""FedPAQ (Reisizadeh et al. 2020) and its momentum forms (FedGLOMO, section 6): quantised averaging.

fedpaq, fedpaq_lm, fedpaq_glm:  fedavg, fedavg_lm, fedavg_glm with Q(Δ) sent for Δ
"""

from tff_momentum.algorithm import Algorithm
from tff_momentum.algorithms.fedavg import fedavg
from tff_momentum.algorithms.fedavg_lm import fedavg_glm, fedavg_lm
from tff_momentum.schedules import Schedule
from tff_momentum.transforms.compression import compressed, qsgd


def fedpaq(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 1.0,
  bits: int = 8,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedPAQ: FedAvg with quantised uploads.

  Args:
    client_learning_rate: η_l > 0.
    server_learning_rate: η > 0.
    bits: b ≥ 2 of QSGD, 32 for no compression; FedGLOMO's authors run it with 8 and 4.
    client_weighting: "uniform" or "num_examples".
  """
  plain = fedavg(
    client_learning_rate=client_learning_rate,
    server_learning_rate=server_learning_rate,
    client_weighting=client_weighting,
  )
  return compressed(plain, qsgd(bits))


def fedpaq_lm(
  *,
  client_learning_rate: float | Schedule,
  beta_l: float | Schedule = 0.9,
  server_learning_rate: float | Schedule = 1.0,
  bits: int = 8,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedPAQ with momentum at the clients.

  Args:
    client_learning_rate: η_l > 0.
    beta_l: β_l in [0, 1), the clients' momentum.
    server_learning_rate: η > 0.
    bits: b ≥ 2 of QSGD, 32 for no compression; FedGLOMO's authors run it with 8 and 4.
    client_weighting: "uniform" or "num_examples".
  """
  plain = fedavg_lm(
    client_learning_rate=client_learning_rate,
    beta_l=beta_l,
    server_learning_rate=server_learning_rate,
    client_weighting=client_weighting,
  )
  return compressed(plain, qsgd(bits))


def fedpaq_glm(
  *,
  client_learning_rate: float | Schedule,
  beta: float | Schedule = 0.9,
  beta_l: float | Schedule = 0.9,
  server_learning_rate: float | Schedule = 1.0,
  bits: int = 8,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedPAQ with momentum at the clients and at the server.

  Args:
    client_learning_rate: η_l > 0.
    beta: β in [0, 1), the server's momentum.
    beta_l: β_l in [0, 1), the clients' momentum.
    server_learning_rate: η > 0.
    bits: b ≥ 2 of QSGD, 32 for no compression; FedGLOMO's authors run it with 8 and 4.
    client_weighting: "uniform" or "num_examples".
  """
  plain = fedavg_glm(
    client_learning_rate=client_learning_rate,
    beta=beta,
    beta_l=beta_l,
    server_learning_rate=server_learning_rate,
    client_weighting=client_weighting,
  )
  return compressed(plain, qsgd(bits))
