"""The mean pairwise cosine distance between the cohort's client models (FedGBO, Figure 1).

    mean over i < j of 1 − cos(y_i, y_j)  =  Σ_i ‖u_i − ū‖² / (S − 1),   u_i = y_i/‖y_i‖

The right-hand side needs two passes over the clients instead of all pairs, and stays accurate if the models
are nearly equal.
"""

from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum import trees
from tff_momentum.diagnostics.local_steps import LocalSteps
from tff_momentum.models.model import Weights
from tff_momentum.processes.process import ClientInput, FederatedProcess, ProcessState


class CosineDistance:
  """Measures the distance between given models, or between the models that a cohort trains."""

  def __init__(self, process: FederatedProcess):
    """Compiles the computations.

    Args:
      process: the process whose clients' models to compare.

    Raises:
      ValueError: if the algorithm's clients take no local steps, or are asynchronous.
    """
    self._between = _between(process.model.weights_spec)
    self._models = _models(LocalSteps(process), *process.next.type_signature.parameter)

  def __call__(self, state: ProcessState, clients: Sequence[ClientInput]) -> float:
    """The distance between the models that a cohort trains, starting from this state.

    Args:
      state: the process's state at the start of the round.
      clients: the cohort; clients without data are left out.
    """
    models, steps = self._models(state, list(clients))
    return self.between([y for y, count in zip(models, steps, strict=True) if count])

  def between(self, models: Sequence[Weights]) -> float:
    """The mean pairwise distance between these models; 0 for fewer than two."""
    return float(self._between(list(models))) if len(models) > 1 else 0.0


def _between(weights_spec: tuple[tf.TensorSpec, ...]) -> tff.Computation:
  weights_type = tff.types.tensorflow_to_type(weights_spec)

  @tff.tensorflow.computation(weights_type)
  def direction(y):
    return trees.map(lambda w: tf.math.divide_no_nan(w, trees.norm(y)), y)

  @tff.tensorflow.computation(weights_type, weights_type)
  def square(u, mean):
    away = trees.subtract(u, mean)
    return trees.dot(away, away)

  @tff.tensorflow.computation(np.float32, np.float32)
  def over_pairs(total, count):
    return total / (count - 1)

  @tff.federated_computation(tff.types.FederatedType(weights_type, tff.CLIENTS))
  def between(models):
    u = tff.federated_map(direction, models)
    mean = tff.federated_broadcast(tff.federated_mean(u))
    total = tff.federated_sum(tff.federated_map(square, (u, mean)))
    count = tff.federated_sum(tff.federated_value(1.0, tff.CLIENTS))
    return tff.federated_map(over_pairs, (total, count))

  return between


def _models(
  steps: LocalSteps, state_type: tff.types.FederatedType, clients_type: tff.types.FederatedType
) -> tff.Computation:
  """(state@SERVER, clients@CLIENTS) -> each client's last model, and its K_i."""

  @tff.tensorflow.computation(steps.message_type, state_type.member.round, clients_type.member)
  def train(message, t, client):
    y = steps.iterate(steps.end(message, t, client))
    return y, tf.cast(steps.client(t, client).num_steps, tf.int32)

  @tff.federated_computation(state_type, clients_type)
  def models(state, clients):
    message = tff.federated_broadcast(steps.message(state, clients))
    trained = tff.federated_map(train, (message, tff.federated_broadcast(state.round), clients))
    return trained[0], trained[1]

  return models
