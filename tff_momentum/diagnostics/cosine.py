"""The mean pairwise cosine distance between the cohort's client models (FedGBO, Figure 1).

    mean over i < j of 1 − cos(y_i, y_j)  =  Σ_i ‖u_i − ū‖² / (S − 1),   u_i = y_i/‖y_i‖

The right-hand side takes two passes over the clients instead of all pairs, and keeps its digits where the
models are nearly the same.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum import trees
from tff_momentum.diagnostics.local_steps import LocalSteps
from tff_momentum.processes.process import ClientInput, FederatedProcess, ProcessState


class CosineDistance:
  """Measures the distance between models, or lets a cohort train and measures theirs."""

  def __init__(self, process: FederatedProcess):
    """Compiles the computations for a process's model."""
    self._between = _between(process.model.weights_spec)
    self._models = _models(LocalSteps(process), *process.next.type_signature.parameter)

  def __call__(self, state: ProcessState, clients: Sequence[ClientInput]) -> float:
    """The distance between the models that a cohort trains from this state, its data unread."""
    models, steps = self._models(state, list(clients))
    return self.between([y for y, count in zip(models, steps, strict=True) if count])

  def between(self, models: Sequence[Any]) -> float:
    """The distance between these models; 0 for one alone."""
    return float(self._between(list(models))) if len(models) > 1 else 0.0


def _between(weights_spec: Any) -> tff.Computation:
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


def _models(steps: LocalSteps, state_type: Any, clients_type: Any) -> tff.Computation:
  """(state@SERVER, clients@CLIENTS) -> the model that each one ends with, and its K_i."""

  @tff.tensorflow.computation(steps.message_type, state_type.member.round, clients_type.member)
  def walk(message, t, client):
    y = steps.iterate(steps.end(message, t, client))
    return y, tf.cast(steps.client(t, client).num_steps, tf.int32)

  @tff.federated_computation(state_type, clients_type)
  def models(state, clients):
    message = tff.federated_broadcast(steps.message(state, clients))
    walked = tff.federated_map(walk, (message, tff.federated_broadcast(state.round), clients))
    return walked[0], walked[1]

  return models
