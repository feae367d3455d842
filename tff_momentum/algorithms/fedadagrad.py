"""FedAdagrad: Adagrad as the server's optimizer.

Sashank J. Reddi et al., "Adaptive Federated Optimization", ICLR 2021, Algorithm 2.
https://arxiv.org/abs/2003.00295

    client:  FedAvg's;   Δ = E[x − y]
    server:  m ← β₁m + (1−β₁)Δ;   v ← v + Δ²
             x ← x − η m/(√v + ε), with the new v, which starts at ε²
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tff_momentum.algorithm import Algorithm, named
from tff_momentum.algorithms.adaptive import adaptive
from tff_momentum.default_rates import LocalSgd, Rates, derives_rates
from tff_momentum.schedules import Schedule


def first_step_rates(sgd: LocalSgd, hyperparameters: Mapping[str, Any]) -> Rates:
  """The first server step moves every weight by the server rate, as SGD does where a gradient is 0.1."""
  return {
    "client_learning_rate": sgd.learning_rate,
    "server_learning_rate": sgd.learning_rate / 10,
  }


@named
@derives_rates(first_step_rates)
def fedadagrad(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 0.1,
  beta1: float = 0.0,
  epsilon: float = 1e-3,
  v0: float | None = None,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedAdagrad, without momentum by default.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    server_learning_rate: η > 0, a number or a schedule; default 0.1.
    beta1: β₁ in [0, 1); default 0, as in the paper.
    epsilon: ε > 0, the paper's τ; larger values adapt less. Default 0.001.
    v0: the first value of v, at least 0; ε² by default.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedadagrad(client_learning_rate=0.1).name
    'fedadagrad'
  """

  def second_moment(v, delta):
    return v + tf.square(delta)

  rates = client_learning_rate, server_learning_rate
  return adaptive(second_moment, rates, beta1, epsilon, v0, client_weighting)
