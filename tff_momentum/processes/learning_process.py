"""Algorithms without client state as `tff.learning.templates.LearningProcess`, for TFF's own loops.

    next(state, data) -> LearningProcessOutput(state, metrics)

TFF's programs pass data sets without client ids. So a client's seed is a fingerprint of its first batch and
of the round number, and runs stay reproducible.
"""

import collections

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum.algorithm import Algorithm
from tff_momentum.client import LocalWork
from tff_momentum.models.model import Model
from tff_momentum.processes.exchange import AggregatorFactory
from tff_momentum.processes.process import ClientInput, ProcessState, build_process


def as_learning_process(
  algorithm: Algorithm,
  model: Model | tff.learning.models.FunctionalModel,
  *,
  work: LocalWork | None = None,
  aggregator: AggregatorFactory | None = None,
) -> tff.learning.templates.LearningProcess:
  """Compiles an algorithm whose clients keep no state into a TFF learning process.

  Setting the model weights of a state resets the algorithm's other statistics.

  Example:
    >>> import tensorflow as tf, tff_momentum as tfm
    >>> model = tfm.from_keras(
    ...   lambda: tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(2,))]),
    ...   loss=tf.keras.losses.MeanSquaredError(),
    ...   batch_spec=(tf.TensorSpec([None, 2]), tf.TensorSpec([None, 1])),
    ... )
    >>> process = tfm.as_learning_process(tfm.algorithms.fedavg(client_learning_rate=0.1), model)
    >>> [w.shape for w in process.get_model_weights(process.initialize()).trainable]
    [(2, 1), (1,)]

  Args:
    algorithm: the algorithm.
    model: a `Model` or a `tff.learning.models.FunctionalModel`.
    work: the number of local epochs or steps, and the weight decay; one epoch by default.
    aggregator: a `tff.aggregators` factory, weighted or unweighted, in the place of the mean.

  Returns:
    The learning process.

  Raises:
    ValueError: if the algorithm's clients keep state, or for the reasons of `build_process`.
  """
  process = build_process(algorithm, model, work=work, aggregator=aggregator)
  if process.client_state_type != tff.types.to_type(()):
    raise ValueError(
      "Expected an algorithm whose clients keep no state, because a LearningProcess cannot store it; found "
      f"the client state {process.client_state_type.compact_representation()}: use build_process."
    )
  inner_state_type = process.initialize.type_signature.result.member
  data_type = process.next.type_signature.parameter[1].member.data

  def wrap_state(state: ProcessState) -> tff.learning.templates.LearningAlgorithmState:
    weights = algorithm.model(state.server)
    return tff.learning.templates.LearningAlgorithmState(
      global_model_weights=tff.learning.models.ModelWeights(tuple(weights), ()),
      distributor=(),
      client_work=state.round,
      aggregator=state.aggregators,
      finalizer=state.server,
    )

  @tff.tensorflow.computation(inner_state_type)
  def wrap(state):
    return wrap_state(state)

  state_type = wrap.type_signature.result

  @tff.tensorflow.computation(state_type)
  def unwrap(state):
    return ProcessState(
      round=state.client_work, server=state.finalizer, aggregators=state.aggregator
    )

  @tff.tensorflow.computation(np.int32, data_type)
  def seed_of(t, data):
    return _fingerprint(data, t)

  @tff.tensorflow.computation(process.next.type_signature.result.metrics.member)
  def wrap_metrics(metrics):
    return collections.OrderedDict(
      distributor=(),
      client_work=collections.OrderedDict(train=metrics["train"]),
      aggregator=metrics["aggregators"],
      finalizer=collections.OrderedDict(update_norm=metrics["update_norm"]),
    )

  @tff.federated_computation
  def initialize():
    return tff.federated_map(wrap, process.initialize())

  @tff.federated_computation(
    tff.types.FederatedType(state_type, tff.SERVER), tff.types.FederatedType(data_type, tff.CLIENTS)
  )
  def next_fn(state, data):
    inner = tff.federated_map(unwrap, state)
    seeds = tff.federated_map(seed_of, (tff.federated_broadcast(inner.round), data))
    nothing = tff.federated_value((), tff.CLIENTS)
    zero = tff.federated_value(np.int32(0), tff.CLIENTS)  # the usual work, from the newest model
    clients = ClientInput(
      seed=seeds,
      state=nothing,
      data=data,
      steps=zero if process.takes_steps else nothing,
      staleness=zero if process.takes_staleness else nothing,
    )
    output = process.next(inner, tff.federated_zip(clients))
    return tff.learning.templates.LearningProcessOutput(
      state=tff.federated_map(wrap, output.state),
      metrics=tff.federated_map(wrap_metrics, output.metrics),
    )

  @tff.tensorflow.computation(state_type)
  def get_model_weights(state):
    return state.global_model_weights

  @tff.tensorflow.computation(state_type, state_type.global_model_weights)
  def set_model_weights(state, weights):
    server = algorithm.init_server(tuple(weights.trainable))
    return wrap_state(ProcessState(state.client_work, server, state.aggregator))

  return tff.learning.templates.LearningProcess(
    initialize, next_fn, get_model_weights, set_model_weights
  )


def _fingerprint(data: tf.data.Dataset, t: tf.Tensor) -> tf.Tensor:
  """A seed, int32[2], derived from the first batch and the round number."""

  def of_batch(seed, batch):
    for part in tf.nest.flatten(batch):
      words = tf.strings.to_hash_bucket_fast(tf.io.serialize_tensor(part), 2**31 - 1)
      seed = tf.random.experimental.stateless_fold_in(seed, tf.cast(words, tf.int32))
    return seed

  start = tf.stack([t, tf.zeros([], tf.int32)])
  return data.take(1).reduce(start, of_batch)
