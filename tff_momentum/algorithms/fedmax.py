"""FedMAX: FedAvg with a penalty that keeps the penultimate activations a spread out.

Wei Chen, Kartikeya Bhardwaj, Radu Marculescu, "FedMAX: Mitigating Activation Divergence for Accurate and
Communication-Efficient Federated Learning", ECML PKDD 2020. https://arxiv.org/abs/2004.03657

    loss + α KL(softmax(a) ‖ uniform)    direction "forward", as the paper writes it
    loss + α KL(uniform ‖ softmax(a))    direction "reverse", as the authors' code computes it

Both divergences are means over the examples of the batch. Only the gradient changes; the server's step and
the bytes are FedAvg's.
"""

import dataclasses
import math

import tensorflow as tf

from tff_momentum import validation
from tff_momentum.algorithm import Algorithm, named
from tff_momentum.algorithms.fedavg import fedavg
from tff_momentum.models.model import Model
from tff_momentum.schedules import Schedule


@named
def fedmax(
  *,
  client_learning_rate: float | Schedule,
  alpha: float = 0.1,
  direction: str = "forward",
  server_learning_rate: float | Schedule = 1.0,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedMAX. The model must name its penultimate layer.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    alpha: α ≥ 0, the weight of the penalty; 0 is FedAvg. Default 0.1.
    direction: "forward" (default) or "reverse", which of the two divergences.
    server_learning_rate: η > 0, a number or a schedule; default 1.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm. Building a process from it raises ValueError if the model names no penultimate layer.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedmax(client_learning_rate=0.1, alpha=0.5).name
    'fedmax'
  """
  validation.number("alpha", alpha, at_least=0)
  divergence = DIVERGENCES[validation.one_of("direction", direction, tuple(DIVERGENCES))]

  def prepare_model(model: Model) -> Model:
    if model.with_penalty is None:
      raise ValueError(
        "fedmax needs the activations of the penultimate layer, and this model names no such layer; "
        "name it with from_keras(..., penultimate=...), or choose another algorithm."
      )
    return model.with_penalty(lambda a: alpha * divergence(a))

  algorithm = fedavg(
    client_learning_rate=client_learning_rate,
    server_learning_rate=server_learning_rate,
    client_weighting=client_weighting,
  )
  return dataclasses.replace(algorithm, prepare_model=prepare_model)


def forward_divergence(activations: tf.Tensor) -> tf.Tensor:
  """KL(p ‖ uniform) = Σ p log p + log n with p = softmax(a), averaged over all dimensions but the last."""
  log_p = tf.nn.log_softmax(activations)
  return tf.reduce_mean(tf.reduce_sum(tf.exp(log_p) * log_p, axis=-1)) + _log_size(activations)


def reverse_divergence(activations: tf.Tensor) -> tf.Tensor:
  """KL(uniform ‖ p) = −log n − (1/n) Σ log p with p = softmax(a), averaged in the same way."""
  return -tf.reduce_mean(tf.nn.log_softmax(activations)) - _log_size(activations)


DIVERGENCES = {"forward": forward_divergence, "reverse": reverse_divergence}


def _log_size(activations: tf.Tensor) -> float:
  return math.log(activations.shape[-1])
