"""Blocks of clients: partial aggregates, merged in order, in cohorts below and above the number of blocks."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
import tree
from tensorflow_federated.python.aggregators import discretization

from tests.runtime.conftest import assert_same
from tff_momentum import runtime
from tff_momentum.runtime import blocks

FEW, MANY = 5, 2 * blocks.MAX_BLOCKS + 22  # one client per block; two or three per block
CLIENT_FLOATS = tff.FederatedType(np.float32, tff.CLIENTS)
VECTOR = tff.TensorType(np.float32, [3])
GROWING = tff.TensorType(np.float32, [None])


@pytest.mark.parametrize("clients", [0, 1, 63, 64, 65, 150, 1000, 4097])
def test_blocks_cover_the_cohort_in_order_and_are_of_equal_size(clients):
  found = blocks.cut(clients)
  assert [i for block in found for i in block] == list(range(clients))
  assert len(found) == min(clients, blocks.MAX_BLOCKS)
  assert len({len(block) for block in found}) <= 2


class TestSchedule:
  def test_the_longest_blocks_come_first_and_chunks_get_smaller(self):
    work = [1.0, 5.0, 2.0, 4.0, 3.0, 1.0, 1.0, 1.0, 1.0, 1.0]
    schedule = blocks.BlockSchedule(work, [1] * 10, slots=2, window=10)
    chunks = []
    while chunk := schedule.take():
      chunks.append(chunk)
    assert chunks[:2] == [[1], [3]]
    assert sorted(block for chunk in chunks for block in chunk) == list(range(10))
    assert schedule.is_empty

  def test_many_small_blocks_share_a_chunk(self):
    schedule = blocks.BlockSchedule([1.0] * 64, [1] * 64, slots=2, window=64)
    sizes = []
    while chunk := schedule.take():
      sizes.append(len(chunk))
    assert sizes[0] == 16
    assert sizes == sorted(sizes, reverse=True)
    assert sizes[-1] == 1
    assert len(sizes) < 20

  def test_blocks_wait_until_those_before_them_are_merged(self):
    schedule = blocks.BlockSchedule([1.0, 1.0, 1.5, 1.5], [1] * 4, slots=4, window=2)
    assert [schedule.take(), schedule.take(), schedule.take()] == [[0], [1], []]
    schedule.merged(1)
    assert schedule.take() == []
    schedule.merged(0)
    assert [schedule.take(), schedule.take()] == [[2], [3]]

  def test_lost_blocks_run_again_first(self):
    schedule = blocks.BlockSchedule([1.0, 2.0, 3.0], [1] * 3, slots=3, window=3)
    lost = schedule.take()
    schedule.put_back(lost)
    assert schedule.take() == lost == [2]

  def test_with_several_places_a_block_has_its_own(self):
    schedule = blocks.BlockSchedule([1.0] * 6, [1] * 6, slots=6, window=6, places=2)
    assert [schedule.take(1) for _ in range(4)] == [[1], [3], [5], []]


def tensorflow(*types):
  return lambda function: tff.tensorflow.computation(function, types)


@tff.federated_computation(CLIENT_FLOATS)
def in_order(values):
  """Concatenates: the state grows, its order is that of the cohort, and accumulate is not merge."""
  append = tensorflow(GROWING, np.float32)(lambda state, x: tf.concat([state, [x]], 0))
  join = tensorflow(GROWING, GROWING)(lambda a, b: tf.concat([a, b], 0))
  zero = tff.tensorflow.computation(lambda: tf.zeros([0]))()
  keep = tff.tensorflow.computation(lambda state: state, GROWING)
  return tff.federated_aggregate(values, zero, append, join, keep)


@tff.federated_computation(CLIENT_FLOATS, tff.FederatedType(np.float32, tff.SERVER))
def from_the_server(values, limit):
  """Zero and what accumulate and merge add are values of the server; a second pass needs kept values."""
  larger = tensorflow(np.float32, np.float32)(lambda a, b: tf.maximum(a, b))
  report = tff.tensorflow.computation(lambda x: x, np.float32)
  square = tff.tensorflow.computation(lambda x: x * x, np.float32)
  squares = tff.federated_map(square, values)
  largest = tff.federated_max(squares)
  clipped = tff.federated_map(
    tensorflow(np.float32, np.float32)(lambda a, b: tf.minimum(a, b)),
    (squares, tff.federated_broadcast(largest)),
  )
  return tff.federated_aggregate(values, np.float32(-7.0), larger, larger, report), (
    tff.federated_sum(clipped),
    clipped,
    tff.federated_map(square, limit),
  )


@tff.federated_computation(CLIENT_FLOATS)
def ragged(values):
  """Kept values with another shape at every client."""
  spread = tff.tensorflow.computation(
    lambda x: tf.range(tf.cast(tf.abs(x), tf.int32) % 4), np.float32
  )
  return tff.federated_map(spread, values)


def floats(clients):
  return [np.float32(v) for v in np.random.default_rng(clients).normal(size=clients) * 3]


@pytest.mark.parametrize("clients", [1, FEW, MANY])
@pytest.mark.parametrize("computation", [in_order, ragged])
def test_order_and_shapes_are_those_of_the_cohort(agree, computation, clients):
  agree(computation, floats(clients))


@pytest.mark.parametrize("clients", [FEW, MANY])
def test_values_of_the_server_and_two_passes(agree, clients):
  agree(from_the_server, floats(clients), 2.0, rtol=1e-5)


def test_an_empty_cohort_gives_zero(in_process):
  with tff.framework.get_context_stack().install(in_process):
    np.testing.assert_array_equal(in_order([]), np.zeros([0], np.float32))


def vectors(clients):
  values = np.random.default_rng(clients).normal(size=(clients, 3)).astype(np.float32)
  return list(values)


AGGREGATORS = {
  "concat": lambda: tff.aggregators.concat_factory(tff.aggregators.SumFactory()),
  "clipping_mean": lambda: tff.aggregators.clipping_factory(
    tff.aggregators.PrivateQuantileEstimationProcess.no_noise(1.0, 0.5, 0.2),
    tff.aggregators.UnweightedMeanFactory(),
  ),
  "zeroing": lambda: tff.aggregators.zeroing_factory(2.0, tff.aggregators.SumFactory()),
  "secure_sum": lambda: tff.aggregators.SecureSumFactory(3.0, -3.0),
  "secure_modular_sum": lambda: discretization.DiscretizationFactory(
    tff.aggregators.SecureModularSumFactory(2**20, symmetric_range=True), scale_factor=100.0
  ),
  "gaussian_dp": lambda: tff.aggregators.DifferentiallyPrivateFactory.gaussian_fixed(
    noise_multiplier=0.0, clients_per_round=MANY, clip=1.0
  ),
  "adaptive_dp": lambda: tff.aggregators.DifferentiallyPrivateFactory.gaussian_adaptive(
    noise_multiplier=0.0, clients_per_round=MANY
  ),
  "tree_dp": lambda: tff.aggregators.DifferentiallyPrivateFactory.tree_aggregation(
    noise_multiplier=0.0,
    clients_per_round=MANY,
    l2_norm_clip=1.0,
    record_specs=tf.TensorSpec([3]),
  ),
}


@pytest.mark.parametrize("name", AGGREGATORS)
def test_aggregators_equal_the_stock_worker(worker, in_process, name):
  process = AGGREGATORS[name]().create(VECTOR)
  with tff.framework.get_context_stack().install(in_process):
    start = process.initialize()  # some initial states are random
  results = []
  for context in (worker, in_process):
    with tff.framework.get_context_stack().install(context):
      state, outputs = start, []
      for clients in (FEW, MANY):
        output = process.next(state, vectors(clients))
        state = output.state
        outputs.append(output)
      results.append(outputs)
  assert_same(*results, rtol=1e-5, atol=1e-5)


def test_reservoir_sampling_merges_reservoirs(in_process):
  """Each value is one client's own, and large blocks and small ones are drawn alike."""
  process = tff.aggregators.UnweightedReservoirSamplingFactory(sample_size=10).create(
    tff.TensorType(np.float32)
  )
  with tff.framework.get_context_stack().install(in_process):
    for clients in (FEW, MANY):
      sample = process.next(process.initialize(), floats(clients)).result
      assert len(sample) == min(10, clients)
      assert set(sample) <= set(floats(clients))
      assert len(set(sample)) == len(sample)


@pytest.mark.parametrize("clients", [FEW, MANY])
def test_an_error_of_a_client_or_of_its_accumulation_names_the_client(in_process, clients):
  bad = clients - 2

  @tff.tensorflow.computation(np.float32)
  def check(x):
    with tf.control_dependencies([tf.debugging.assert_less(x, 100.0, message="too large")]):
      return tf.identity(x)

  @tff.tensorflow.computation(np.float32, np.float32)
  def add(total, x):
    with tf.control_dependencies([tf.debugging.assert_less(x, 100.0, message="cannot add")]):
      return total + x

  @tff.federated_computation(CLIENT_FLOATS)
  def fails_at_client(values):
    return tff.federated_sum(tff.federated_map(check, values))

  @tff.federated_computation(CLIENT_FLOATS)
  def fails_in_accumulate(values):
    plus = tensorflow(np.float32, np.float32)(lambda a, b: a + b)
    same = tff.tensorflow.computation(lambda x: x, np.float32)
    return tff.federated_aggregate(values, np.float32(0.0), add, plus, same)

  values = [np.float32(101.0 if i == bad else i % 7) for i in range(clients)]
  with (
    tff.framework.get_context_stack().install(in_process),
    runtime.client_labels(lambda i: f"client number {i}"),
  ):
    for computation, message in [
      (fails_at_client, "too large"),
      (fails_in_accumulate, "cannot add"),
    ]:
      with pytest.raises(
        tf.errors.InvalidArgumentError, match=rf"(?s)^client number {bad} failed in.*{message}"
      ):
        computation(values)


def test_bits_do_not_depend_on_the_number_of_slots():
  data = [collections.OrderedDict(x=x, n=np.int32(i)) for i, x in enumerate(vectors(MANY))]
  type_spec = tff.FederatedType(collections.OrderedDict(x=VECTOR, n=np.int32), tff.CLIENTS)

  @tff.federated_computation(type_spec)
  def mean(values):
    return tff.federated_mean(values.x), tff.federated_sum(values.n)

  found = []
  for slots in (1, 2, 7):
    context = runtime.create_inprocess_context("cpu", max_clients_in_flight=slots)
    with tff.framework.get_context_stack().install(context):
      found.append(mean(data))
  for each in found[1:]:
    for a, b in zip(tree.flatten(found[0]), tree.flatten(each), strict=True):
      assert a.tobytes() == b.tobytes()
