"""A process's `initialize`, which passes the initial weights as an argument when it runs.

TFF demands a computation without a parameter. Written as such, it holds the weights as constants of a graph,
of which TensorFlow and TFF make a dozen copies on the way to the first state. So `initialize()` runs a
computation of the weights instead. Only where it becomes part of another computation are the weights written
into it.
"""

import functools
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.context_stack.symbol_binding_context import (
  SymbolBindingContext,
)

from tff_momentum.models.model import Weights

ModelWeights = tff.learning.models.ModelWeights


def weights_type(weights: Weights) -> tff.types.Type:
  """The type of the computations' argument, `ModelWeights` without non-trainable ones.

  A bare tuple with one weight could not be told from the weight itself.
  """
  leaves = [tff.types.TensorType(w.dtype.type, w.shape) for w in weights]
  return tff.types.to_type(ModelWeights(tuple(leaves), ()))


class InitialState(tff.framework.ConcreteComputation):
  """The computation `( -> state@SERVER)`."""

  def __init__(
    self, from_weights: tff.framework.ConcreteComputation, weights: tuple[np.ndarray, ...]
  ):
    """Serialises nothing yet.

    Args:
      from_weights: (weights@SERVER) -> state@SERVER, where the weights are of the type `weights_type`.
      weights: the initial weights.
    """
    # Not the constructor of TFF, which asks for the serialised computation.
    self._type_signature = tff.types.FunctionType(None, from_weights.type_signature.result)
    self._context_stack = tff.framework.get_context_stack()
    self._from_weights, self._weights = from_weights, weights

  def __call__(self) -> Any:
    """Runs the computation in the current context, or adds it to the one that is being built."""
    if isinstance(self._context_stack.current, SymbolBindingContext):
      return super().__call__()
    return self._from_weights(ModelWeights(self._weights, ()))

  def __eq__(self, other: object) -> bool:
    return self is other

  def __hash__(self) -> int:
    return id(self)

  @functools.cached_property
  def _computation_proto(self) -> Any:
    """The computation with the weights as constants; TFF's methods read it."""

    @tff.tensorflow.computation
    def constants():
      return ModelWeights(tuple(tf.constant(w) for w in self._weights), ())

    @tff.federated_computation
    def initialize():
      return self._from_weights(tff.federated_eval(constants, tff.SERVER))

    return tff.framework.ConcreteComputation.get_proto(initialize)
