"""Models as pure functions: the loss and its gradient at given weights, on a given batch, with a given seed.

Everything a client computes from its data goes through `Model.value_and_grad`. It is a function of its
arguments alone, so two gradients on one batch (Mime's g(y; b) and g(x; b)) see the same dropout masks.
`models.keras.from_keras` converts a Keras model and `processes.functional_model.as_model` a TFF one.
"""

import collections
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

Weights = Any  # a tuple of tensors: the trainable weights
Batch = Any  # a pair (x, y), or a mapping with the keys x and y
Seed = Any  # a tensor int32[2]


class Tally(NamedTuple):
  """What batches say about a model, in sums: tallies of disjoint batches add up."""

  examples: tf.Tensor
  loss: tf.Tensor  # Σ (mean loss of a batch) · (its examples)
  metrics: Any


@dataclasses.dataclass(frozen=True)
class Model:
  """A model without variables.

  Attributes:
    initial_weights: the trainable weights to start from, NumPy arrays.
    batch_spec: the `tf.TensorSpec`s of a batch, its first dimension unknown.
    value_and_grad: (weights, batch, seed) -> (tally, gradient), in training mode.
    evaluate: (weights, batch) -> tally, in inference mode.
    empty_tally: () -> the tally of no batch at all.
    finalize_metrics: a tally's metrics -> the values to report.
    fresh_weights: seed -> weights initialised anew, where the model can do that.
    keras: () -> the Keras model that this one was made of, its weights in the same order; or None.
    with_penalty: (activations of the penultimate layer -> scalar) -> this model with that added to
      its loss; None where the model names no such layer.
  """

  initial_weights: tuple[np.ndarray, ...]
  batch_spec: Any
  value_and_grad: Callable[[Weights, Batch, Seed], tuple[Tally, Weights]]
  evaluate: Callable[[Weights, Batch], Tally]
  empty_tally: Callable[[], Tally]
  finalize_metrics: Callable[[Any], "collections.OrderedDict[str, Any]"]
  fresh_weights: Callable[[int], tuple[np.ndarray, ...]] | None = None
  keras: Callable[[], Any] | None = None
  with_penalty: Callable[[Callable[[tf.Tensor], tf.Tensor]], "Model"] | None = None

  @property
  def num_parameters(self) -> int:
    """How many numbers the trainable weights hold."""
    return sum(int(w.size) for w in self.initial_weights)

  @property
  def weights_spec(self) -> tuple[tf.TensorSpec, ...]:
    """The shapes and types of the trainable weights."""
    return tuple(tf.TensorSpec(w.shape, w.dtype) for w in self.initial_weights)

  def finalize(self, tally: Tally) -> "collections.OrderedDict[str, Any]":
    """The values to report for a tally: the mean loss, then the model's own metrics."""
    return collections.OrderedDict(
      loss=tf.math.divide_no_nan(tally.loss, tally.examples),
      **self.finalize_metrics(tally.metrics),
      num_examples=tally.examples,
    )


def features_and_labels(batch: Batch) -> tuple[Any, Any]:
  """The two parts of a batch, whichever of TFF's two forms it has."""
  if isinstance(batch, collections.abc.Mapping):
    return batch["x"], batch["y"]
  x, y = batch
  return x, y


def dense_gradient(gradient: Any, weights: Weights) -> Weights:
  """The gradient as plain tensors: zeros where a weight is unused, embeddings' slices filled in."""
  return tuple(
    tf.zeros_like(w) if g is None else tf.convert_to_tensor(g)
    for g, w in zip(gradient, weights, strict=True)
  )
