"""The full gradient, and how well the server's momentum estimates it (GHBM, section 4.2, Lemmas 4.5 to 4.7).

    g = E[G_i(x)] over all clients, or over a sample;   ‖g‖, ‖m‖, ‖m − g‖ and cos(m, g)

where m = `Algorithm.momentum`, the momentum scaled to the size of one gradient.
"""

import collections
from collections.abc import Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum import trees
from tff_momentum.processes.process import ClientInput, FederatedProcess, ProcessState


class FullGradient:
  """Measures the gradient of a process's model over clients, and compares the momentum with it.

  Attributes:
    columns: the names of the values that it returns.
  """

  def __init__(self, process: FederatedProcess):
    """Compiles the computation; the momentum's columns are there if the algorithm has a momentum."""
    self.columns = ["gradient_norm"]
    if process.algorithm.momentum is not None:
      self.columns += ["momentum_norm", "momentum_error", "momentum_cosine"]
    self._measure = _measure(process)

  def __call__(self, state: ProcessState, clients: Sequence[ClientInput]) -> dict[str, float]:
    """Measures a state on these clients' data; returns the values by column."""
    measured = self._measure(state, list(clients))
    return {name: float(measured[name]) for name in self.columns}


def full_gradient(process: FederatedProcess) -> tuple[tff.Computation, tff.Computation]:
  """Compiles the client's part of a gradient over clients.

  Returns:
    (x, round, client) -> `g` = G_i(x), its `weight` in the mean, `steps` = K_i, and whether it is `present`,
    that is, has data; and state -> x.
  """
  state_type, clients_type = process.next.type_signature.parameter
  weights_type = tff.types.tensorflow_to_type(process.model.weights_spec)

  @tff.tensorflow.computation(weights_type, state_type.member.round, clients_type.member)
  def gradient(x, t, client):
    handle = process.make_client(t, client)
    g = handle.full_gradient(x)
    present = tf.cast(handle.num_examples > 0, tf.float32)
    by_examples = process.algorithm.client_weighting == "num_examples"
    return collections.OrderedDict(
      g=tuple(g),
      weight=handle.num_examples if by_examples else present,
      steps=handle.num_steps,
      present=present,
    )

  @tff.tensorflow.computation(state_type.member)
  def model(state):
    return tuple(process.algorithm.model(state.server))

  return gradient, model


def _measure(process: FederatedProcess) -> tff.Computation:
  gradient, model = full_gradient(process)
  state_type, clients_type = process.next.type_signature.parameter
  momentum = process.algorithm.momentum

  @tff.tensorflow.computation(state_type.member, gradient.type_signature.result.g, np.float32)
  def norms(state, g, K):
    measured = collections.OrderedDict(gradient_norm=trees.norm(g))
    if momentum is not None:
      m = momentum(state.server, state.round, K)
      both = trees.norm(m) * trees.norm(g)
      measured["momentum_norm"] = trees.norm(m)
      measured["momentum_error"] = trees.norm(trees.subtract(m, g))
      measured["momentum_cosine"] = tf.math.divide_no_nan(trees.dot(m, g), both)
    return measured

  @tff.federated_computation(state_type, clients_type)
  def measure(state, clients):
    x = tff.federated_broadcast(tff.federated_map(model, state))
    sent = tff.federated_map(gradient, (x, tff.federated_broadcast(state.round), clients))
    g = tff.federated_mean(sent.g, sent.weight)
    K = tff.federated_mean(sent.steps, sent.present)
    return tff.federated_map(norms, (state, g, K))

  return measure
