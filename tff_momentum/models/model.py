"""Models as pure functions: the loss and its gradient at given weights, on a given batch, with a given seed.

Everything a client computes from its data goes through `Model.value_and_grad`. It is a function of its
arguments alone, so two gradients on one batch (Mime's g(y; b) and g(x; b)) see the same dropout masks.
`as_model` makes a `Model` of a TFF functional model; `keras_model.from_keras` of a Keras model.
"""

import collections
import dataclasses
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum import trees

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


def as_model(model: "Model | tff.learning.models.FunctionalModel") -> Model:
  """Makes a `Model` of TFF's functional model; a `Model` is returned as it is.

  Non-trainable weights are constants. A model that draws random numbers of its own is refused: its
  gradient would not be a function of (weights, batch, seed), and no run could be repeated.
  """
  if isinstance(model, Model):
    return model
  if isinstance(model, tf.keras.Model):
    raise ValueError(
      "Expected a tff_momentum Model or a tff.learning.models.FunctionalModel; found a "
      "Keras model: convert it with tff_momentum.from_keras, naming its loss."
    )
  if not isinstance(model, tff.learning.models.FunctionalModel):
    raise ValueError(
      "Expected a tff_momentum Model or a tff.learning.models.FunctionalModel; found "
      f"{type(model).__name__}."
    )
  trainable, frozen = model.initial_weights

  def forward(weights, batch, training):
    x, y = features_and_labels(batch)
    packed = tf.nest.pack_sequence_as(trainable, tf.nest.flatten(weights))
    output = model.predict_on_batch((packed, frozen), x, training)
    loss = model.loss(output, y)
    examples = tf.shape(tf.nest.flatten(output)[0])[0]
    summary = tff.learning.models.BatchOutput(loss=loss, predictions=output, num_examples=examples)
    metrics = model.update_metrics_state(model.initialize_metrics_state(), y, summary)
    n = tf.cast(examples, tf.float32)
    return loss, Tally(n, loss * n, metrics)

  def value_and_grad(weights, batch, seed):
    del seed  # a functional model has no dropout that could be seeded
    with tf.GradientTape(watch_accessed_variables=False) as tape:
      tape.watch(weights)
      loss, tally = forward(weights, batch, True)
    return tally, dense_gradient(tape.gradient(loss, weights), weights)

  def empty_tally():
    return Tally(tf.zeros([]), tf.zeros([]), trees.zeros_like(model.initialize_metrics_state()))

  initial_weights = tuple(np.asarray(w) for w in tf.nest.flatten(trainable))
  specs = tuple(tf.TensorSpec(w.shape, w.dtype) for w in initial_weights)
  _refuse_own_randomness(lambda w, b: forward(w, b, True), specs, model.input_spec)
  return Model(
    initial_weights=initial_weights,
    batch_spec=model.input_spec,
    value_and_grad=value_and_grad,
    evaluate=lambda weights, batch: forward(weights, batch, False)[1],
    empty_tally=empty_tally,
    finalize_metrics=model.finalize_metrics,
  )


def dense_gradient(gradient: Any, weights: Weights) -> Weights:
  """The gradient as plain tensors: zeros where a weight is unused, embeddings' slices filled in."""
  return tuple(
    tf.zeros_like(w) if g is None else tf.convert_to_tensor(g)
    for g, w in zip(gradient, weights, strict=True)
  )


def _refuse_own_randomness(function, *specs) -> None:
  with tf.Graph().as_default():
    graph = tf.function(function).get_concrete_function(*specs).graph
  nodes = list(graph.as_graph_def().node)
  for definition in graph.as_graph_def().library.function:
    nodes.extend(definition.node_def)
  for node in nodes:
    if node.op.startswith(
      (
        "Random",
        "StatefulRandom",
        "StatefulUniform",
        "StatefulStandardNormal",
        "TruncatedNormal",
        "Multinomial",
      )
    ):
      raise ValueError(
        f"The model draws random numbers of its own (operation {node.op}), so the same seed would "
        "not give the same run; convert the Keras model with tff_momentum.from_keras instead, "
        "which seeds its dropout."
      )
