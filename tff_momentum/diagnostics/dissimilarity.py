"""How much the clients' functions differ at a model: G and B of (G, B)-BGD, and δ of δ-BHD (SCAFFOLD).

    mean_i ‖∇f_i(x)‖² ≤ G² + B²‖∇f(x)‖²,        ‖∇²f_i(x) − ∇²f(x)‖ ≤ δ for all i

At a point x the first inequality is an equality for B = 1 and G² = mean_i ‖∇f_i(x) − ∇f(x)‖², and for G = 0
and B² = mean_i ‖∇f_i(x)‖² / ‖∇f(x)‖². This G and this B are reported. δ is the largest ‖H_i − H‖ over the
clients, estimated by the Lanczos method. All means give equal weight to each client that has data.
"""

import collections
import dataclasses
from collections.abc import Callable, Sequence

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum import trees
from tff_momentum.diagnostics.gradient import full_gradient
from tff_momentum.diagnostics.spectral_norm import spectral_norm
from tff_momentum.models.model import Model, Weights, dense_gradient
from tff_momentum.processes.process import ClientInput, FederatedProcess, ProcessState

COLUMNS = ("G", "B", "delta")


class Dissimilarity:
  """Measures G, B and δ of a cohort."""

  def __init__(self, process: FederatedProcess, *, iterations: int = 10, seed: int = 0):
    """Compiles the computations.

    Args:
      process: the process that has the model and the weight decay.
      iterations: the largest number of Lanczos iterations per client; each needs a product at every client.
      seed: the seed of the start vectors.
    """
    self._iterations, self._seed = iterations, seed
    self._gradients = _gradients(process)
    self._products = _products(process)
    self._shapes = [w.shape for w in process.model.initial_weights]

  def __call__(self, state: ProcessState, clients: Sequence[ClientInput]) -> dict[str, float]:
    """Measures G, B and δ at the state's model; returns them by column."""
    measured, present = self._gradients(state, list(clients))
    G2, mean_square, norm_square = (float(measured[name]) for name in ("G2", "each", "mean"))
    delta = self.delta(state, clients, [i for i, has_data in enumerate(present) if has_data])
    B = float(np.sqrt(mean_square / norm_square)) if norm_square > 0 else float("inf")
    return {"G": float(np.sqrt(G2)), "B": B, "delta": delta}

  def delta(
    self,
    state: ProcessState,
    clients: Sequence[ClientInput],
    numbers: Sequence[int],
  ) -> float:
    """max ‖H_i − H‖.

    Args:
      state: the state whose model is the point x.
      clients: the clients over which H is the mean.
      numbers: the positions in `clients` over which to take the maximum.
    """
    cohort = list(clients)
    start = np.random.default_rng(self._seed).normal(
      size=sum(int(np.prod(s)) for s in self._shapes)
    )

    def difference(i: int) -> Callable[[np.ndarray], np.ndarray]:
      def apply(v: np.ndarray) -> np.ndarray:
        each, mean = self._products(state, self._unflattened(v), cohort)
        return _flat(each[i]) - _flat(mean)

      return apply

    return max(
      (spectral_norm(difference(i), start, self._iterations) for i in numbers), default=0.0
    )

  def _unflattened(self, v: np.ndarray) -> tuple[np.ndarray, ...]:
    sizes = [int(np.prod(shape)) for shape in self._shapes]
    parts = np.split(v.astype(np.float32), np.cumsum(sizes)[:-1])
    return tuple(part.reshape(s) for part, s in zip(parts, self._shapes, strict=True))


def curvature(model: Model, x: Weights) -> Model:
  """The model whose gradient at v is H v, where H is the Hessian of the given model at x."""

  def product(v, batch, seed):
    point = tuple(tf.identity(w) for w in x)
    tally, g = model.value_and_grad(point, batch, seed)
    # A gradient tape does not record the operations of an imported Keras model; tf.gradients does.
    rows = tf.gradients(trees.dot(g, trees.map(tf.stop_gradient, v)), list(point))
    return tally, dense_gradient(rows, point)

  return dataclasses.replace(model, value_and_grad=product)


def _gradients(process: FederatedProcess) -> tff.Computation:
  """(state, clients) -> the squared norms behind G and B, and which clients have data."""
  gradient, model = full_gradient(process)
  state_type, clients_type = process.next.type_signature.parameter
  g_type = gradient.type_signature.result.g

  @tff.tensorflow.computation(g_type, g_type)
  def squares(g, mean):
    away = trees.subtract(g, mean)
    return trees.dot(away, away), trees.dot(g, g)

  @tff.tensorflow.computation(np.float32, np.float32, g_type)
  def collect(away, each, mean):
    return collections.OrderedDict(G2=away, each=each, mean=trees.dot(mean, mean))

  @tff.federated_computation(state_type, clients_type)
  def gradients(state, clients):
    x = tff.federated_broadcast(tff.federated_map(model, state))
    sent = tff.federated_map(gradient, (x, tff.federated_broadcast(state.round), clients))
    mean = tff.federated_mean(sent.g, sent.present)
    away, each = tff.federated_map(squares, (sent.g, tff.federated_broadcast(mean)))
    means = tff.federated_mean(away, sent.present), tff.federated_mean(each, sent.present)
    return tff.federated_map(collect, (*means, mean)), sent.present

  return gradients


def _products(process: FederatedProcess) -> tff.Computation:
  """(state, v@SERVER, clients) -> H_i v at each client, and their mean."""
  state_type, clients_type = process.next.type_signature.parameter
  weights_type = tff.types.tensorflow_to_type(process.model.weights_spec)

  @tff.tensorflow.computation(state_type.member)
  def model(state):
    return tuple(process.algorithm.model(state.server))

  @tff.tensorflow.computation(
    weights_type, state_type.member.round, weights_type, clients_type.member
  )
  def product(x, t, v, client):
    handle = process.make_client(t, client, model=curvature(process.model, x))
    hv = handle.full_gradient(v)
    return tuple(hv), tf.cast(handle.num_examples > 0, tf.float32)

  @tff.federated_computation(
    state_type, tff.types.FederatedType(weights_type, tff.SERVER), clients_type
  )
  def products(state, v, clients):
    x = tff.federated_broadcast(tff.federated_map(model, state))
    t = tff.federated_broadcast(state.round)
    each, present = tff.federated_map(product, (x, t, tff.federated_broadcast(v), clients))
    return each, tff.federated_mean(each, present)

  return products


def _flat(weights: Weights) -> np.ndarray:
  return np.concatenate([np.ravel(np.asarray(w, np.float64)) for w in weights])
