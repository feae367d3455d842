"""Aggregators by name, and quantisation as a `tff.aggregators` factory, for TFF's own processes and for ours.

    tff.learning.algorithms.build_weighted_fed_avg(
      ..., model_aggregator=aggregators.quantised("qsgd:4"))

Prefer `compressed(algorithm, "qsgd:4")` for this library's algorithms: then byte counts include the
compression, and rounding depends on the client's own seed.
"""

from typing import NamedTuple, TypeAlias, assert_never

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum.aggregator_options import Aggregation, ClippedMean, PrivateMean, RobustMean
from tff_momentum.processes.exchange import AggregatorFactory
from tff_momentum.processes.private_mean import private_mean
from tff_momentum.transforms.compression import Quantiser, quantiser

Factory: TypeAlias = AggregatorFactory


def factory(aggregation: Aggregation, clients_per_round: int, seed: np.ndarray) -> Factory:
  """Builds TFF's aggregator that a record of `tff_momentum.aggregator_options` describes.

  Args:
    aggregation: the record.
    clients_per_round: S, which divides a private sum.
    seed: of the noise of a private mean, int32[2]; every exchange of an algorithm needs its own.
  """
  mean = tff.aggregators.MeanFactory(no_nan_division=True)
  match aggregation:
    case PrivateMean():
      return private_mean(aggregation, clients_per_round, seed)
    case ClippedMean(norm):
      return tff.aggregators.clipping_factory(float(norm), mean)
    case RobustMean(zeroing, clipping):
      return tff.learning.robust_aggregator(zeroing=zeroing, clipping=clipping)
    case _:
      assert_never(aggregation)


class QuantisedState(NamedTuple):
  """The number of rounds so far, and the state of the inner aggregator."""

  round: int
  inner: object


def quantised(compression: Quantiser | str, inner: Factory | None = None) -> Factory:
  """Makes a factory that quantises the clients' values and aggregates the result with `inner`.

  A factory has no client seeds. So rounding depends on a fingerprint of the value and on the round number: it
  is reproducible, and clients that send the same value round it in the same way.

  Args:
    compression: a quantiser or its text, such as "qsgd:4".
    inner: a weighted or unweighted factory; the result is of the same kind. The weighted mean by default.

  Returns:
    The factory.

  Raises:
    ValueError: if `compression` or `inner` is something else.
  """
  q = quantiser(compression)
  inner = inner or tff.aggregators.MeanFactory(no_nan_division=True)
  if isinstance(inner, tff.aggregators.WeightedAggregationFactory):
    return _Weighted(q, inner)
  if isinstance(inner, tff.aggregators.UnweightedAggregationFactory):
    return _Unweighted(q, inner)
  raise ValueError(
    f"inner must be a weighted or unweighted tff.aggregators factory; found {inner!r}."
  )


class _Unweighted(tff.aggregators.UnweightedAggregationFactory):
  def __init__(self, q: Quantiser, inner: tff.aggregators.UnweightedAggregationFactory):
    self._q, self._inner = q, inner

  def create(self, value_type):
    quantise = _at_client(self._q, value_type)
    inner = self._inner.create(value_type)
    initialize = _initialize(inner)

    @tff.federated_computation(
      initialize.type_signature.result, tff.types.FederatedType(value_type, tff.CLIENTS)
    )
    def next_fn(state, value):
      seen = tff.federated_map(quantise, (value, tff.federated_broadcast(state.round)))
      return _output(state, inner.next(state.inner, seen))

    return tff.templates.AggregationProcess(initialize, next_fn)


class _Weighted(tff.aggregators.WeightedAggregationFactory):
  def __init__(self, q: Quantiser, inner: tff.aggregators.WeightedAggregationFactory):
    self._q, self._inner = q, inner

  def create(self, value_type, weight_type):
    quantise = _at_client(self._q, value_type)
    inner = self._inner.create(value_type, weight_type)
    initialize = _initialize(inner)

    @tff.federated_computation(
      initialize.type_signature.result,
      tff.types.FederatedType(value_type, tff.CLIENTS),
      tff.types.FederatedType(weight_type, tff.CLIENTS),
    )
    def next_fn(state, value, weight):
      seen = tff.federated_map(quantise, (value, tff.federated_broadcast(state.round)))
      return _output(state, inner.next(state.inner, seen, weight))

    return tff.templates.AggregationProcess(initialize, next_fn)


def _initialize(inner: tff.templates.AggregationProcess) -> tff.Computation:
  @tff.federated_computation
  def initialize():
    start = QuantisedState(tff.federated_value(np.int32(0), tff.SERVER), inner.initialize())
    return tff.federated_zip(start)

  return initialize


def _output(state, aggregated) -> tff.templates.MeasuredProcessOutput:
  @tff.tensorflow.computation(np.int32)
  def after(t):
    return t + 1

  new_state = QuantisedState(tff.federated_map(after, state.round), aggregated.state)
  return tff.templates.MeasuredProcessOutput(
    tff.federated_zip(new_state), aggregated.result, aggregated.measurements
  )


def _at_client(q: Quantiser, value_type: tff.types.Type) -> tff.Computation:
  specs = tff.types.type_to_tf_tensor_specs(value_type)
  if not all(spec.dtype.is_floating for spec in tf.nest.flatten(specs)):
    raise ValueError(f"Expected floating-point tensors for {q} to quantise; found {value_type}.")

  @tff.tensorflow.computation(value_type, np.int32)
  def quantise(value, t):
    seed = tf.random.experimental.stateless_fold_in(_fingerprint(tf.nest.flatten(value)), t)
    return q.quantise(value, seed)

  return quantise


def _fingerprint(tensors: list[tf.Tensor]) -> tf.Tensor:
  """A 64-bit hash of all entries, as a seed."""
  entries = [tf.reshape(tf.bitcast(t, tf.uint8), [1, -1]) for t in tensors]
  hashed = tf.raw_ops.Fingerprint(data=tf.concat(entries, axis=1), method="farmhash64")
  return tf.bitcast(tf.reshape(hashed, [2, 4]), tf.int32)
