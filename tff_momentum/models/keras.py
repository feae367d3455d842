"""A Keras model as a `Model`: variables become arguments, and dropout becomes a function of a seed.

Keras creates its variables while it builds a model. We build the model once in a graph and give Keras a
placeholder for every variable it asks for. The forward and backward pass is then a graph of (weights, batch,
seed), which is imported wherever a gradient is computed. This works for all layers without state between
batches: dropout, LSTM, GRU, embeddings, GroupNormalization. BatchNormalization is refused, because its
running averages are state that federated averaging does not cover.
"""

import collections
import contextlib
import functools
import gc
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import numpy as np
import tensorflow as tf
from keras.src import backend
from tensorflow.python.ops import control_flow_ops

from tff_momentum import garbage, hot_functions
from tff_momentum.models import cudnn_layers, fast_layers, keras_metrics, large_batches
from tff_momentum.models import model as gradients
from tff_momentum.models.fast_losses import mean_loss
from tff_momentum.models.keras_metrics import Metric as Metric
from tff_momentum.models.model import Model, Tally

_LARGE = 2**26  # bytes


@garbage.paused()
def from_keras(
  build: "Callable[[], tf.keras.Model]",
  *,
  loss: Callable[[Any, Any], tf.Tensor],
  batch_spec: Any,
  metrics: Mapping[str, Any] | Iterable[Any] | None = None,
  seed: int = 0,
  penultimate: str | None = None,
  penalty: Callable[[tf.Tensor], tf.Tensor] | None = None,
) -> Model:
  """Converts a Keras model into a pure `Model`.

  Example:
    >>> import tensorflow as tf, tff_momentum as tfm
    >>> tfm.from_keras(
    ...   lambda: tf.keras.Sequential([tf.keras.layers.Dense(10, input_shape=(784,))]),
    ...   loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    ...   batch_spec=(tf.TensorSpec([None, 784]), tf.TensorSpec([None], tf.int32)),
    ...   metrics={"accuracy": tf.keras.metrics.sparse_categorical_accuracy},
    ... )
    Model(7,850 parameters: float32[784, 10], float32[10])

  Args:
    build: () -> the Keras model; every call must build the same one.
    loss: (labels, predictions) -> the mean loss of the batch, such as a Keras loss object.
    batch_spec: the `tf.TensorSpec`s of a batch, a pair (x, y) or a mapping with the keys x and y.
    metrics: Keras metrics, or functions of (labels, predictions) that return one value per example or a pair
      of values and weights; a list, or a dictionary by name.
    seed: the seed of the initial weights.
    penultimate: the name of the layer whose output FedMAX regularises; `build` must then return a functional
      or sequential model.
    penalty: a function of the penultimate layer's output, added to the loss.

  Returns:
    The model.

  Raises:
    ValueError: if `build` does not return a Keras model with weights, if a layer is a BatchNormalization, or
      if a metric is none or does not return a value per example.
  """
  metrics = keras_metrics.by_name(metrics)

  def fresh_weights(seed: int) -> tuple[np.ndarray, ...]:
    tf.keras.utils.set_random_seed(seed % 2**32)
    return tuple(w.numpy() for w in model_of(build).trainable_weights)

  tf.keras.utils.set_random_seed(seed % 2**32)
  with fast_layers.fast_layers():
    original = model_of(build)
  _refuse_batch_normalization(original)
  frozen = [w.numpy() for w in original.non_trainable_weights]
  initial_weights = tuple(w.numpy() for w in original.trainable_weights)
  if not initial_weights:
    raise ValueError(
      "Expected a Keras model that has trainable weights; found none: give its first layer an "
      "input_shape, so that Keras creates them."
    )
  uses_cudnn = cudnn_layers.can_use_cudnn(original)
  joins_batches = penalty is None and large_batches.can_join(original, loss)
  del original
  if sum(w.nbytes for w in initial_weights) > _LARGE:
    gc.collect()  # Keras's models refer to themselves, so the weights would stay in memory twice
  train = _Graph(build, loss, batch_spec, metrics, frozen, penultimate, penalty, training=True)

  @functools.cache
  def evaluation_graph() -> _Graph:  # built when it is first needed: it takes as long as the other
    return _Graph(build, loss, batch_spec, metrics, frozen, penultimate, None, training=False)

  def evaluate(weights, batch):
    return evaluation_graph()(weights, batch, tf.zeros([2], tf.int32))[0]

  def value_and_grad(weights, batch, seed):
    tally, gradient = train(weights, batch, seed)
    return tally, gradient

  @functools.cache
  def gpu_graph() -> _Graph:
    parts = (build, loss, batch_spec, metrics, frozen, penultimate, penalty)
    return _Graph(*parts, training=True, cudnn=True)

  if uses_cudnn:
    hot_functions.add_gpu_variant(
      value_and_grad, lambda weights, batch, seed: gpu_graph()(weights, batch, seed)
    )

  def empty_tally():
    zero = tf.zeros([])
    return Tally(zero, zero, collections.OrderedDict((name, (zero, zero)) for name in metrics))

  def finalize_metrics(sums):
    return collections.OrderedDict(
      (name, tf.math.divide_no_nan(value, weight)) for name, (value, weight) in sums.items()
    )

  def with_penalty(penalty):
    return from_keras(
      build,
      loss=loss,
      batch_spec=batch_spec,
      metrics=metrics,
      seed=seed,
      penultimate=penultimate,
      penalty=penalty,
    )

  return Model(
    initial_weights=initial_weights,
    batch_spec=batch_spec,
    value_and_grad=value_and_grad,
    evaluate=evaluate,
    empty_tally=empty_tally,
    finalize_metrics=finalize_metrics,
    fresh_weights=fresh_weights,
    keras=build,
    with_penalty=with_penalty if penultimate else None,
    full_gradient_batch=large_batches.SIZE if joins_batches else None,
  )


def model_of(build: "Callable[[], tf.keras.Model]") -> "tf.keras.Model":
  """Calls `build`; raises ValueError unless it returns a Keras model."""
  model = build()
  if not isinstance(model, tf.keras.Model):
    raise ValueError(
      f"Expected a function that returns a Keras model; it returned {type(model).__name__}."
    )
  return model


class _Graph:
  """One pass over a batch (forward, and in training backward) as a graph to import."""

  def __init__(
    self, build, loss, batch_spec, metrics, frozen, penultimate, penalty, *, training, cudnn=False
  ):
    with tf.Graph().as_default() as graph, _LoopsOfKnownLength(), fast_layers.fast_layers():
      self._batch = tf.nest.map_structure(
        lambda spec: tf.compat.v1.placeholder(spec.dtype, spec.shape), batch_spec
      )
      self._seed = tf.compat.v1.placeholder(tf.int32, [2])
      with tf.variable_creator_scope(_placeholder_for_variable):
        model = build()
      _seed_random_layers(model, self._seed)
      if penultimate is not None:
        model = tf.keras.Model(
          model.inputs, [model.outputs[0], model.get_layer(penultimate).output]
        )
      x, y = gradients.features_and_labels(self._batch)
      with cudnn_layers.cudnn_layers(model) if cudnn else contextlib.nullcontext():
        outputs = model(x, training=training)
      predictions, activations = outputs if penultimate is not None else (outputs, None)
      value = tf.convert_to_tensor(mean_loss(loss, y, predictions))
      value.shape.assert_has_rank(0)
      examples = tf.cast(tf.shape(tf.nest.flatten(predictions)[0])[0], tf.float32)
      sums = collections.OrderedDict(
        (name, _sum_and_weight(metric(y, predictions))) for name, metric in metrics.items()
      )
      objective = tf.add_n([value, *model.losses]) if model.losses else value
      if penalty is not None:
        objective += penalty(activations)
      self._weights, untrained = model.trainable_weights, model.non_trainable_weights
      gradient = (
        gradients.dense_gradient(tf.gradients(objective, self._weights), self._weights)
        if training
        else ()
      )
      result = (Tally(examples, objective * examples, sums), gradient)
      # The identities make every result an operation of this graph, even if it is an input.
      self._result = tf.nest.map_structure(lambda t: tf.identity(t).name, result)
    self._definition = _needed_part(graph.as_graph_def(), tf.nest.flatten(self._result))
    present = {node.name for node in self._definition.node}
    inputs = [*self._weights, *tf.nest.flatten(self._batch), self._seed]
    self._feeds = [t.name if t.op.name in present else None for t in inputs]
    constants = dict(zip((t.op.name for t in untrained), frozen, strict=True))
    for node in self._definition.node:
      if node.name in constants:
        value = constants[node.name]
        node.op = "Const"
        node.attr.clear()
        node.attr["dtype"].type = tf.as_dtype(value.dtype).as_datatype_enum
        node.attr["value"].tensor.CopyFrom(tf.make_tensor_proto(value))

  def __call__(self, weights, batch, seed):
    """Adds the pass on these tensors to the graph that is being traced."""
    tf.nest.assert_same_structure(batch, self._batch)
    # The identities capture tensors of an outer function in the graph that is being traced.
    tensors = [tf.identity(t) for t in (*tf.nest.flatten(weights), *tf.nest.flatten(batch), seed)]
    feeds = {name: tensor for name, tensor in zip(self._feeds, tensors, strict=True) if name}
    results = tf.graph_util.import_graph_def(
      self._definition, input_map=feeds, return_elements=tf.nest.flatten(self._result), name=""
    )
    tally, gradient = tf.nest.pack_sequence_as(self._result, results)
    for g, w in zip(gradient, self._weights, strict=False):  # no gradient when evaluating
      g.set_shape(w.shape)  # the gradients of some operations lose their static shape
    return tally, gradient


class _LoopsOfKnownLength(control_flow_ops.XLAControlFlowContext):
  """Makes recurrent layers bound the length of their loops; XLA needs it to compile their gradients."""

  def __enter__(self):
    self.Enter()
    return self

  def __exit__(self, *error):
    self.Exit()


class _SeededGenerator(backend.RandomGenerator):
  """A Keras random generator that draws from a seed tensor; each draw folds in its own number."""

  def __init__(self, seed: tf.Tensor, layer_number: int):
    super().__init__(seed=0, rng_type=self.RNG_STATELESS)
    self._seed_tensor = tf.random.experimental.stateless_fold_in(seed, layer_number)
    self._draws = 0

  def make_seed_for_stateless_op(self):
    self._draws += 1
    return tf.random.experimental.stateless_fold_in(self._seed_tensor, self._draws)


def _seed_random_layers(model: "tf.keras.Model", seed: tf.Tensor) -> None:
  for number, layer in enumerate(model._flatten_layers()):
    if hasattr(layer, "_random_generator"):
      layer._random_generator = _SeededGenerator(seed, number)


def _placeholder_for_variable(next_creator, **kwargs):
  del next_creator
  value = kwargs["initial_value"]
  value = tf.convert_to_tensor(value() if callable(value) else value)
  return tf.compat.v1.placeholder(value.dtype, value.shape)


def _needed_part(definition: Any, results: list[str]) -> Any:
  """The nodes that the results depend on; the initialisers of the variables are not among them."""
  nodes = {node.name: node for node in definition.node}
  waiting, needed = list(results), set()
  while waiting:
    name = waiting.pop().removeprefix("^").split(":")[0]
    if name not in needed:
      needed.add(name)
      waiting.extend(nodes[name].input)
  part = tf.compat.v1.GraphDef(library=definition.library, versions=definition.versions)
  part.node.extend(node for node in definition.node if node.name in needed)
  return part


def _sum_and_weight(measured) -> tuple[tf.Tensor, tf.Tensor]:
  values, weights = measured if isinstance(measured, tuple) else (measured, None)
  values = tf.cast(values, tf.float32)
  if values.shape.rank == 0:
    raise ValueError(
      "Expected a metric that returns one value per example; found a scalar. Inside a graph, compare tensors "
      "with tf.equal, because == compares Python objects."
    )
  weights = tf.ones_like(values) if weights is None else tf.cast(weights, tf.float32)
  return tf.reduce_sum(values * weights), tf.reduce_sum(weights)


def _refuse_batch_normalization(model: "tf.keras.Model") -> None:
  for layer in model._flatten_layers():
    if isinstance(layer, tf.keras.layers.BatchNormalization):
      raise ValueError(
        f"Expected layers without state; found {layer.name}, a BatchNormalization, whose running averages "
        "clients would have to share besides the weights: use GroupNormalization."
      )
