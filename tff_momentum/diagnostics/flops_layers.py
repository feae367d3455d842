"""Multiply-adds of a Keras model's forward pass on one example, layer by layer.

The rules are those of the library that FedGBO's authors used: a multiplication and its addition are one
operation, the bias of a convolution is another, a recurrent cell's gates count too, and pooling and
activations do not count.
"""

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tff_momentum.models.model import Model, features_and_labels

Shape = tuple[int, ...]  # without the batch dimension


def forward_operations(model: Model) -> int:
  """Counts the multiply-adds of one example.

  Example:
    >>> import tensorflow as tf, tff_momentum as tfm
    >>> from tff_momentum.diagnostics.flops_layers import forward_operations
    >>> forward_operations(tfm.from_keras(
    ...   lambda: tf.keras.Sequential([tf.keras.layers.Dense(10, input_shape=(784,))]),
    ...   loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    ...   batch_spec=(tf.TensorSpec([None, 784]), tf.TensorSpec([None], tf.int32)),
    ... ))
    7840

  Raises:
    ValueError: if the model does not come from Keras, has a layer without a rule, or takes inputs of unknown
      shape.
  """
  if model.keras is None:
    raise ValueError(
      "flops counts the layers of a Keras model; this task's model is not one. Leave it out of "
      "--diagnostics, or choose another task."
    )
  keras = model.keras()
  x, _ = features_and_labels(model.batch_spec)
  calls: list[tuple[Any, Shape, Shape]] = []
  for layer in _outer_layers(keras):
    _record(layer, calls)
  keras(tf.nest.map_structure(_one_example, x), training=False)
  return sum(_operations(*call) for call in calls)


def _one_example(spec: tf.TensorSpec) -> tf.Tensor:
  if None in spec.shape[1:]:
    raise ValueError(
      f"flops needs examples of one fixed shape; found {spec.shape[1:]}. Leave it out of --diagnostics."
    )
  return tf.zeros([1, *spec.shape[1:]], spec.dtype)


def _outer_layers(layer: Any) -> list[Any]:
  """The layers of a model and of the models inside it; a layer made of layers is not taken apart."""
  if isinstance(layer, tf.keras.Model):
    return [inner for part in layer.layers for inner in _outer_layers(part)]
  return [layer]


def _record(layer: Any, calls: list[tuple[Any, Shape, Shape]]) -> None:
  call = layer.call

  def recorded(*inputs: Any, **options: Any) -> Any:
    outputs = call(*inputs, **options)
    first_in, first_out = tf.nest.flatten(inputs)[0], tf.nest.flatten(outputs)[0]
    calls.append((layer, tuple(first_in.shape[1:]), tuple(first_out.shape[1:])))
    return outputs

  layer.call = recorded


def _operations(layer: Any, inputs: Shape, outputs: Shape) -> int:
  for kind, rule in RULES.items():
    if isinstance(layer, kind):
      return rule(layer, inputs, outputs)
  if layer.weights:
    raise ValueError(
      f"flops has no rule for the layer {layer.name}, a {type(layer).__name__}. Leave it out of "
      "--diagnostics, or add a rule to tff_momentum/diagnostics/flops_layers.py."
    )
  return 0


def _dense(layer: Any, inputs: Shape, outputs: Shape) -> int:
  return math.prod(outputs) * inputs[-1]


def _convolution(layer: Any, inputs: Shape, outputs: Shape) -> int:
  kernel = math.prod(layer.kernel_size) * inputs[-1] // layer.groups
  return math.prod(outputs) * (kernel + layer.use_bias)


def _depthwise(layer: Any, inputs: Shape, outputs: Shape) -> int:
  return math.prod(outputs) * (math.prod(layer.kernel_size) + layer.use_bias)


def _gated(gates: int, elementwise: int) -> Callable[[Any, Shape, Shape], int]:
  """A recurrent layer: each gate is two products, their sum and the biases; then the gates are combined."""

  def rule(layer: Any, inputs: Shape, outputs: Shape) -> int:
    h, (length, width) = layer.units, inputs
    gate = h * (h + width + 1 + 2 * layer.use_bias)
    return length * (gates * gate + elementwise * h)

  return rule


def _normalisation(layer: Any, inputs: Shape, outputs: Shape) -> int:
  return 2 * math.prod(outputs)


def _attention(layer: Any, inputs: Shape, outputs: Shape) -> int:
  projections = sum(int(np.prod(w.shape)) for w in layer.weights if len(w.shape) == 3)
  heads_width = layer._num_heads * (layer._key_dim + (layer._value_dim or layer._key_dim))
  return inputs[0] * projections + inputs[0] ** 2 * heads_width


def _nothing(layer: Any, inputs: Shape, outputs: Shape) -> int:
  return 0


_L = tf.keras.layers
RULES: dict[Any, Callable[[Any, Shape, Shape], int]] = {
  _L.Embedding: _nothing,
  _L.Dense: _dense,
  _L.DepthwiseConv2D: _depthwise,
  _L.Conv1D: _convolution,
  _L.Conv2D: _convolution,
  _L.GRU: _gated(gates=3, elementwise=4),
  _L.LSTM: _gated(gates=4, elementwise=4),
  _L.GroupNormalization: _normalisation,
  _L.LayerNormalization: _normalisation,
  _L.MultiHeadAttention: _attention,
}
