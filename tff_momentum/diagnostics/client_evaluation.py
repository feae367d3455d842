"""The model on each client's own data: as the server has it, and after a few local steps (personalisation).

    y = x;   y ← y − η g(y; b), K times, on the client's training data
    metrics of x and of y on its held-out data

The mean over clients says how well a typical client is served; the worst tenth and the standard deviation say
how unevenly (fairness, as in q-FFL, https://arxiv.org/abs/1905.10497).
"""

import collections
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum import trees, validation
from tff_momentum.client import Client, LocalWork
from tff_momentum.models.model import Model, Weights

STATISTICS = ("mean", "worst_decile", "std")


class EvaluatedClient(NamedTuple):
  """A client's input to its evaluation.

  Attributes:
    seed: int32[2], for dropout in local steps.
    train: the client's training batches.
    held_out: batches on which the client never trains.
  """

  seed: Any
  train: Any
  held_out: Any


class ClientMetrics(NamedTuple):
  """The metrics of clients, each an array with one value per client with held-out data.

  Attributes:
    before: of the model as the clients got it.
    after: of the model after the local steps; empty if there are none.
  """

  before: dict[str, np.ndarray]
  after: dict[str, np.ndarray]


class ClientEvaluator:
  """Evaluates a model on clients; a TFF computation, so it runs where the clients train."""

  def __init__(self, model: Model, *, steps: int, learning_rate: float, own_models: bool = False):
    """Compiles the computation.

    Args:
      model: the model.
      steps: K ≥ 0, the local steps of the personalised model; 0 for none.
      learning_rate: η > 0.
      own_models: whether every client has a model of its own.
    """
    validation.integer("steps", steps, at_least=0)
    validation.number("learning_rate", learning_rate, above=0)
    self._own_models = own_models
    self._measure = _computation(model, steps, learning_rate, own_models)

  def __call__(
    self, weights: Weights | Sequence[Weights], clients: Sequence[EvaluatedClient]
  ) -> ClientMetrics:
    """Evaluates.

    Args:
      weights: the model's weights; with `own_models`, those of each client.
      clients: the clients.
    """
    given = [tuple(w) for w in weights] if self._own_models else tuple(weights)
    measured = self._measure(given, list(clients))
    present = [each for each in measured if float(each["before"]["num_examples"]) > 0]
    return ClientMetrics(*(_columns(present, part) for part in ("before", "after")))


def statistics(values: np.ndarray, *, larger_is_better: bool) -> dict[str, float]:
  """The mean, the mean of the worst tenth, and the standard deviation over clients.

  The worst tenth are the ⌈n/10⌉ clients with the worst values. nan if there is no client.

  >>> statistics(np.array([0.5, 1.0]), larger_is_better=True)
  {'mean': 0.75, 'worst_decile': 0.5, 'std': 0.25}
  """
  if not len(values):
    return dict.fromkeys(STATISTICS, math.nan)
  ordered = np.sort(values) if larger_is_better else np.sort(values)[::-1]
  worst = ordered[: -(-len(ordered) // 10)]
  return {
    "mean": float(values.mean()),
    "worst_decile": float(worst.mean()),
    "std": float(values.std()),
  }


def _columns(measured: Sequence[Any], part: str) -> dict[str, np.ndarray]:
  names = [name for name in measured[0][part] if name != "num_examples"] if measured else []
  return {
    name: np.array([float(each[part][name]) for each in measured], np.float64) for name in names
  }


def _computation(model: Model, steps: int, rate: float, own_models: bool) -> tff.Computation:
  weights_type = tff.types.tensorflow_to_type(model.weights_spec)
  batches = tff.types.SequenceType(tff.types.tensorflow_to_type(model.batch_spec))
  client_type = tff.types.to_type(
    EvaluatedClient(tff.types.TensorType(np.int32, (2,)), batches, batches)
  )

  @tff.tensorflow.computation(weights_type, client_type)
  def evaluate(x, client):
    x = tuple(x)
    found = collections.OrderedDict(before=_metrics(model, x, client.held_out))
    if steps:
      handle = Client(model, LocalWork(steps=steps), client.train, client.seed, tf.constant(0))
      y = handle.steps(
        lambda y, grad: trees.map(lambda y, g: y - rate * g, y, grad(y)),
        x,
      )
      found["after"] = _metrics(model, y, client.held_out)
    else:
      found["after"] = collections.OrderedDict()
    return found

  placement = tff.CLIENTS if own_models else tff.SERVER

  @tff.federated_computation(
    tff.types.FederatedType(weights_type, placement),
    tff.types.FederatedType(client_type, tff.CLIENTS),
  )
  def measure(weights, clients):
    if not own_models:
      weights = tff.federated_broadcast(weights)
    return tff.federated_map(evaluate, (weights, clients))

  return measure


def _metrics(model: Model, weights: Weights, data: tf.data.Dataset) -> Any:
  tally = data.reduce(
    model.empty_tally(), lambda tally, batch: trees.add(tally, model.evaluate(weights, batch))
  )
  return model.finalize(tally)
