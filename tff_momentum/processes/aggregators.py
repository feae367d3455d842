"""Quantisation as a `tff.aggregators` factory, for TFF's own learning processes and for ours.

    tff.learning.algorithms.build_weighted_fed_avg(
      ..., model_aggregator=aggregation.quantised("qsgd:4"))

An algorithm of this library is better compressed by `compressed(algorithm, "qsgd:4")`: only then do its
byte counts know of it, and is the rounding keyed by the client's own seed.
"""

from typing import NamedTuple, TypeAlias

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum.transforms.compression import Quantiser, compressed, quantiser

__all__ = ["compressed", "quantised"]

Factory: TypeAlias = (
  tff.aggregators.UnweightedAggregationFactory | tff.aggregators.WeightedAggregationFactory
)


class QuantisedState(NamedTuple):
  """How often it has aggregated, and the state of the factory inside."""

  round: int
  inner: object


def quantised(compression: Quantiser | str, inner: Factory | None = None) -> Factory:
  """A factory that quantises the clients' values and has `inner` aggregate what comes out.

  A factory has no seed for each client, so the rounding is keyed by a fingerprint of the value and by
  the number of the round: it is repeatable, and clients that send the very same value round alike.

  Args:
    compression: a quantiser or its text, such as "qsgd:4".
    inner: a weighted or unweighted factory, which the result is then too; by default the weighted mean.
  """
  q = quantiser(compression)
  inner = inner or tff.aggregators.MeanFactory(no_nan_division=True)
  if isinstance(inner, tff.aggregators.WeightedAggregationFactory):
    return _Weighted(q, inner)
  if isinstance(inner, tff.aggregators.UnweightedAggregationFactory):
    return _Unweighted(q, inner)
  raise ValueError(
    f"inner must be a weighted or an unweighted tff.aggregators factory; found {inner!r}."
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
  """64 bits, as a seed, that any change of any entry changes."""
  entries = [tf.reshape(tf.bitcast(t, tf.uint8), [1, -1]) for t in tensors]
  hashed = tf.raw_ops.Fingerprint(data=tf.concat(entries, axis=1), method="farmhash64")
  return tf.bitcast(tf.reshape(hashed, [2, 4]), tf.int32)
