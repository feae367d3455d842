"""Gaussian noise that depends on the run's seed and the round, for TFF's `DifferentiallyPrivateFactory`.

The noise of TFF's own `gaussian_fixed` is new in every process, so a resumed run would differ from one that
never stopped. Here noise is a function of (seed, round, tensor). The seed must be a secret where privacy
matters: who knows it can subtract the noise. A simulation has no such secret.
"""

import collections
from typing import Any, NamedTuple

import dp_accounting
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
import tensorflow_privacy as tfp

from tff_momentum.aggregator_options import PrivateMean


class SeededGaussianSum(tfp.GaussianSumQuery):
  """`tfp.GaussianSumQuery` with noise from a seed; its state also has the seed and the number of releases."""

  _GlobalState = collections.namedtuple("_GlobalState", ["l2_norm_clip", "stddev", "seed", "count"])

  def __init__(self, l2_norm_clip: float, stddev: float, seed: np.ndarray):
    """Takes the clipping norm, the noise's standard deviation, and a seed, int32[2]."""
    super().__init__(l2_norm_clip, stddev)
    self._seed = seed

  def initial_global_state(self):
    """The state before the first release."""
    return self._GlobalState(
      tf.cast(self._l2_norm_clip, tf.float32),
      tf.cast(self._stddev, tf.float32),
      tf.constant(self._seed, tf.int32),
      tf.zeros([], tf.int32),
    )

  def get_noised_result(self, sample_state, global_state):
    """The sum with noise, and the state for the next release."""
    seed = tf.random.experimental.stateless_fold_in(global_state.seed, global_state.count)

    def noised(number: int, v: tf.Tensor) -> tf.Tensor:
      own = tf.random.experimental.stateless_fold_in(seed, number)
      noise = tf.random.stateless_normal(tf.shape(v), own, stddev=global_state.stddev)
      return v + tf.cast(noise, v.dtype)

    leaves = [noised(number, v) for number, v in enumerate(tf.nest.flatten(sample_state))]
    result = tf.nest.pack_sequence_as(sample_state, leaves)
    event = dp_accounting.GaussianDpEvent(global_state.stddev / global_state.l2_norm_clip)
    return result, global_state._replace(count=global_state.count + 1), event


class PrivateState(NamedTuple):
  """The parts of the state of TFF's factory that it reads; the others are texts, which checkpoints lack."""

  query: Any
  records: Any


class _WithoutEvents(tff.aggregators.UnweightedAggregationFactory):
  """TFF's factory without the privacy events in its state; `tff_momentum.privacy` counts them."""

  def __init__(self, inner: tff.aggregators.UnweightedAggregationFactory):
    self._inner = inner

  def create(self, value_type):
    inner = self._inner.create(value_type)

    @tff.federated_computation
    def initialize():
      state = inner.initialize()
      return tff.federated_zip(PrivateState(state[0], state[1]))

    @tff.federated_computation(
      initialize.type_signature.result, tff.types.FederatedType(value_type, tff.CLIENTS)
    )
    def next_fn(state, value):
      events = inner.initialize()
      whole = tff.federated_zip((state.query, state.records, events[2], events[3]))
      output = inner.next(whole, value)
      kept = tff.federated_zip(PrivateState(output.state[0], output.state[1]))
      return tff.templates.MeasuredProcessOutput(kept, output.result, output.measurements)

    return tff.templates.AggregationProcess(initialize, next_fn)


def private_mean(
  dp: PrivateMean, clients_per_round: int, seed: np.ndarray
) -> tff.aggregators.UnweightedAggregationFactory:
  """TFF's private mean with fixed clipping.

  Args:
    dp: the clipping norm and the noise.
    clients_per_round: S, which divides the noised sum, however many clients report.
    seed: of the noise, int32[2]; every exchange of an algorithm needs its own.
  """
  query = SeededGaussianSum(dp.clip, dp.clip * dp.noise_multiplier, seed)
  return _WithoutEvents(
    tff.aggregators.DifferentiallyPrivateFactory(
      tfp.NormalizedQuery(query, denominator=float(clients_per_round))
    )
  )
