"""Models as pure functions: the loss and its gradient at given weights, on a given batch, with a given seed.

Everything a client computes from its data goes through `Model.value_and_grad`. It depends only on its
arguments, so two gradients on one batch (Mime's g(y; b) and g(x; b)) see the same dropout masks.
`models.keras.from_keras` converts a Keras model and `processes.functional_model.as_model` a TFF one.
"""

import collections
import dataclasses
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf

Weights: TypeAlias = tuple[tf.Tensor, ...]  # the trainable weights, or anything of their shapes
Batch: TypeAlias = Any  # a pair (x, y), or a mapping with the keys x and y
Seed: TypeAlias = tf.Tensor  # int32[2]
Metrics: TypeAlias = "collections.OrderedDict[str, Any]"


class Tally(NamedTuple):
  """Sums of a model's loss and metrics over batches; tallies of different batches add up.

  Attributes:
    examples: the number of examples, float32.
    loss: Σ (mean loss of a batch) · (its number of examples).
    metrics: the sums behind the model's own metrics; `Model.finalize_metrics` reads them.
  """

  examples: tf.Tensor
  loss: tf.Tensor
  metrics: Any


@dataclasses.dataclass(frozen=True, repr=False)
class Model:
  """A model without variables.

  Attributes:
    initial_weights: the trainable weights to start from, as NumPy arrays.
    batch_spec: the `tf.TensorSpec`s of a batch; the first dimension is None.
    value_and_grad: (weights, batch, seed) -> (tally, gradient), in training mode.
    evaluate: (weights, batch) -> tally, in inference mode.
    empty_tally: () -> the tally of no batches.
    finalize_metrics: a tally's metrics -> the values to report.
    fresh_weights: seed -> newly initialised weights, or None if the model cannot make them.
    keras: () -> the Keras model that this one was converted from, with its weights in the same order; None
      for other models.
    with_penalty: (activations of the penultimate layer -> scalar) -> this model with that penalty added to
      its loss; None if the model names no such layer.
    full_gradient_batch: the number of examples in a batch where only the mean gradient of all examples counts
      (`Client.full_gradient`); None keeps the client's batches, as it must if the gradient of a batch is not
      the mean of its examples' gradients.
  """

  initial_weights: tuple[np.ndarray, ...]
  batch_spec: Any
  value_and_grad: Callable[[Weights, Batch, Seed], tuple[Tally, Weights]]
  evaluate: Callable[[Weights, Batch], Tally]
  empty_tally: Callable[[], Tally]
  finalize_metrics: Callable[[Any], Metrics]
  fresh_weights: Callable[[int], tuple[np.ndarray, ...]] | None = None
  keras: Callable[[], Any] | None = None
  with_penalty: Callable[[Callable[[tf.Tensor], tf.Tensor]], "Model"] | None = None
  full_gradient_batch: int | None = None

  def __repr__(self) -> str:
    shapes = ", ".join(f"{w.dtype}{list(w.shape)}" for w in self.initial_weights[:4])
    more = ", ..." if len(self.initial_weights) > 4 else ""
    return f"Model({self.num_parameters:,} parameters: {shapes}{more})"

  @property
  def num_parameters(self) -> int:
    """The number of trainable parameters."""
    return sum(int(w.size) for w in self.initial_weights)

  @property
  def num_bytes(self) -> int:
    """The size of the trainable weights in bytes: what sending the model costs."""
    return sum(int(w.nbytes) for w in self.initial_weights)

  @property
  def weights_spec(self) -> tuple[tf.TensorSpec, ...]:
    """The shapes and dtypes of the trainable weights."""
    return tuple(tf.TensorSpec(w.shape, w.dtype) for w in self.initial_weights)

  def finalize(self, tally: Tally) -> Metrics:
    """The values to report for a tally: the mean loss, the model's own metrics, the number of examples."""
    return collections.OrderedDict(
      loss=tf.math.divide_no_nan(tally.loss, tally.examples),
      **self.finalize_metrics(tally.metrics),
      num_examples=tally.examples,
    )


def features_and_labels(batch: Batch) -> tuple[Any, Any]:
  """Splits a batch, which is a pair (x, y) or a mapping with the keys x and y."""
  if isinstance(batch, Mapping):
    return batch["x"], batch["y"]
  x, y = batch
  return x, y


def dense_gradient(gradient: Any, weights: Weights) -> Weights:
  """The gradient as dense tensors: zeros for unused weights, embeddings' slices scattered."""
  return tuple(
    tf.zeros_like(w) if g is None else tf.convert_to_tensor(g)
    for g, w in zip(gradient, weights, strict=True)
  )
