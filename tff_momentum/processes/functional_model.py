"""A TFF functional model as a `Model`."""

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum import trees
from tff_momentum.models.model import Model, Tally, dense_gradient, features_and_labels


def as_model(model: Model | tff.learning.models.FunctionalModel) -> Model:
  """Converts a TFF functional model into a `Model`; returns a `Model` unchanged.

  Non-trainable weights become constants.

  Raises:
    ValueError: if it is another kind of model, or one that draws random numbers. The gradient of such a model
      is not a function of (weights, batch, seed), so no run would be reproducible.
  """
  if isinstance(model, Model):
    return model
  if isinstance(model, tf.keras.Model):
    raise ValueError(
      "Expected a tff_momentum Model or a tff.learning.models.FunctionalModel; found a "
      "Keras model: convert it with tff_momentum.from_keras."
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
    del seed  # a functional model has no seeded dropout
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
        f"Expected a model without randomness; found one that draws random numbers (operation {node.op}), so "
        "its runs are not reproducible: convert the Keras model with tff_momentum.from_keras, which seeds "
        "its dropout."
      )
