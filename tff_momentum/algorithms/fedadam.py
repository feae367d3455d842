"""FedAdam, and FedRMSProp as its case β₁ = 0 (Reddi et al. 2021, Algorithm 2).

client:  FedAvg's, with Δ = E[x − y] at the server
server:  m ← β₁m + (1−β₁)Δ;   v ← β₂v + (1−β₂)Δ²
         x ← x − η m/(√v + ε), with the new v, which starts at ε²
"""

import tensorflow as tf

from tff_momentum import validation
from tff_momentum.algorithm import Algorithm
from tff_momentum.algorithms.adaptive import adaptive
from tff_momentum.schedules import Schedule


def fedadam(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 0.01,
  beta1: float = 0.9,
  beta2: float = 0.99,
  epsilon: float = 1e-3,
  v0: float | None = None,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedAdam, without bias correction.

  Args:
    client_learning_rate: η_l > 0.
    server_learning_rate: η > 0.
    beta1: β₁ in [0, 1).
    beta2: β₂ in [0, 1).
    epsilon: ε > 0; the larger, the less adaptive.
    v0: where v starts, ≥ 0; ε² unless given.
    client_weighting: "uniform" or "num_examples".
  """
  validation.number("beta2", beta2, at_least=0, below=1)

  def second_moment(v, delta):
    return beta2 * v + (1 - beta2) * tf.square(delta)

  rates = client_learning_rate, server_learning_rate
  return adaptive(second_moment, rates, beta1, epsilon, v0, client_weighting)


def fedrmsprop(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 0.01,
  beta2: float = 0.99,
  epsilon: float = 1e-3,
  v0: float | None = None,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedRMSProp: FedAdam without momentum.

  Args:
    client_learning_rate: η_l > 0.
    server_learning_rate: η > 0.
    beta2: β₂ in [0, 1).
    epsilon: ε > 0; the larger, the less adaptive.
    v0: where v starts, ≥ 0; ε² unless given.
    client_weighting: "uniform" or "num_examples".
  """
  return fedadam(
    client_learning_rate=client_learning_rate,
    server_learning_rate=server_learning_rate,
    beta1=0.0,
    beta2=beta2,
    epsilon=epsilon,
    v0=v0,
    client_weighting=client_weighting,
  )
