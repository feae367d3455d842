"""FedAdam, and FedRMSProp as its case β₁ = 0.

Sashank J. Reddi et al., "Adaptive Federated Optimization", ICLR 2021, Algorithm 2.
https://arxiv.org/abs/2003.00295

    client:  FedAvg's;   Δ = E[x − y]
    server:  m ← β₁m + (1−β₁)Δ;   v ← β₂v + (1−β₂)Δ²
             x ← x − η m/(√v + ε), with the new v, which starts at ε²
"""

import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tff_momentum import validation
from tff_momentum.algorithm import Algorithm, named
from tff_momentum.algorithms.adaptive import adaptive
from tff_momentum.default_rates import LocalSgd, Rates, derives_rates
from tff_momentum.schedules import Schedule

USUAL_SERVER_RATE = 0.01


def bounded_first_step(sgd: LocalSgd, hyperparameters: Mapping[str, Any]) -> Rates:
  """The first server step moves a weight by η/√(1−β₂): at most as far as SGD where a gradient is 0.4."""
  bound = 0.4 * sgd.learning_rate * math.sqrt(1 - hyperparameters["beta2"])
  return {
    "client_learning_rate": sgd.learning_rate,
    "server_learning_rate": min(USUAL_SERVER_RATE, bound),
  }


@named
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
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    server_learning_rate: η > 0, a number or a schedule; default 0.01.
    beta1: β₁ in [0, 1); default 0.9, as in the paper.
    beta2: β₂ in [0, 1); default 0.99, as in the paper.
    epsilon: ε > 0, the paper's τ; larger values adapt less. Default 0.001.
    v0: the first value of v, at least 0; ε² by default.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedadam(client_learning_rate=0.1, server_learning_rate=0.03).name
    'fedadam'
  """
  validation.number("beta2", beta2, at_least=0, below=1)

  def second_moment(v, delta):
    return beta2 * v + (1 - beta2) * tf.square(delta)

  rates = client_learning_rate, server_learning_rate
  return adaptive(second_moment, rates, beta1, epsilon, v0, client_weighting)


@named
@derives_rates(bounded_first_step)
def fedrmsprop(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 0.01,
  beta2: float = 0.99,
  epsilon: float = 1e-3,
  v0: float | None = None,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedRMSProp: FedAdam without momentum. FedGBO uses it as a form of AdaptiveFedOpt.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    server_learning_rate: η > 0, a number or a schedule; default 0.01.
    beta2: β₂ in [0, 1); default 0.99.
    epsilon: ε > 0, the paper's τ; larger values adapt less. Default 0.001.
    v0: the first value of v, at least 0; ε² by default.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedrmsprop(client_learning_rate=0.1).name
    'fedrmsprop'
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
