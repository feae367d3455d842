"""Batches that a graph gathers by index are those of the same `ClientBatches` as a data set."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum.runtime import (
  ClientBatches,
  Examples,
  batch_rule,
  context,
  create_inprocess_context,
)
from tff_momentum.runtime.context import program_of

BATCHES = tff.SequenceType(
  collections.OrderedDict(
    x=tff.TensorType(np.float32, [None, 2]), y=tff.TensorType(np.int32, [None])
  )
)


@pytest.fixture(autouse=True, params=["graphs for CPUs", "graphs for GPUs"])
def runtime(request):
  context = create_inprocess_context("cpu", as_gpu=request.param == "graphs for GPUs")
  tff.framework.set_default_context(context)


def arrays(rows: int) -> collections.OrderedDict:
  return collections.OrderedDict(
    x=np.arange(2 * rows, dtype=np.float32).reshape(rows, 2), y=np.arange(rows, dtype=np.int32)
  )


def add_noise(batch, seed):
  return collections.OrderedDict(
    x=batch["x"] + tf.random.stateless_uniform([2], seed), y=batch["y"] * 10
  )


PLAIN, NOISY = Examples(arrays(40)), Examples(arrays(40), add_noise)


def describe(dataset):
  """Returns three numbers that depend on the order, the sizes and the content of the batches."""

  def step(state, batch):
    k, sizes, content = state
    weight = tf.cast(k + 1, tf.float32)
    size = tf.cast(tf.shape(batch["y"])[0], tf.float32)
    inside = tf.range(1.0, size + 1)
    total = tf.reduce_sum(inside * (tf.reduce_sum(batch["x"], 1) + tf.cast(batch["y"], tf.float32)))
    return k + 1, sizes + weight * size, content + weight * total

  return dataset.reduce((tf.zeros([], tf.int64), tf.zeros([]), tf.zeros([])), step)


def on_clients(transform):
  @tff.tensorflow.computation(BATCHES)
  def local(dataset):
    return describe(transform(dataset))

  @tff.federated_computation(tff.FederatedType(BATCHES, tff.CLIENTS))
  def everywhere(datasets):
    return tff.federated_map(local, datasets)

  return everywhere


TRANSFORMS = {
  "unchanged": lambda data: data,
  "repeated": lambda data: data.repeat(3),
  "repeated zero times": lambda data: data.repeat(0),
  "taken": lambda data: data.take(2),
  "none taken": lambda data: data.take(0),
  "all taken": lambda data: data.take(-1),
  "more taken than there are": lambda data: data.take(100),
  "taken across the end": lambda data: data.repeat(4).take(5),
  "taken and repeated": lambda data: data.take(2).repeat(2),
  "partly repeated": lambda data: data.repeat(2).take(4).repeat(3).take(11),
  "repeated forever": lambda data: data.repeat().take(7),
  "prefetched": lambda data: data.prefetch(2),
  "read by an iterator": lambda data: data.skip(1).map(lambda batch: batch),
}


@pytest.mark.parametrize("name", TRANSFORMS)
def test_both_ways_give_the_same_batches(name):
  transform = TRANSFORMS[name]
  computation = on_clients(transform)
  bounds = [(0, 10), (3, 11), (20, 23), (31, 40), (5, 5)]
  for examples, seed in ((PLAIN, None), (NOISY, (5, -7))):
    clients = [
      ClientBatches(examples, batch_size=4, seed=seed, begin=begin, end=end)
      for begin, end in bounds
    ]
    found = computation(clients)
    assert program_of(computation).reads_by_index == (name != "read by an iterator")
    for numbers, data in zip(found, clients, strict=True):
      expected = describe(transform(data.as_dataset()))
      np.testing.assert_allclose(
        np.array(numbers, np.float64), np.array(expected, np.float64), rtol=1e-6
      )


def test_an_epochs_draw_is_that_of_a_random_data_set():
  """Guards `epoch_draw`, which computes what TensorFlow's `RandomDatasetV2` computes."""
  drawn = [int(number) for number in batch_rule.draws().take(1).repeat(7)]
  assert [int(batch_rule.epoch_draw(tf.constant(e))[0]) for e in range(7)] == drawn
  assert batch_rule.first_draw() == drawn[0]
  assert len(set(drawn)) == 7


def test_each_epoch_and_each_seed_has_its_own_order():
  def orders(seed, epochs=1):
    data = ClientBatches(np.arange(50), batch_size=50, seed=seed).as_dataset()
    return [batch.numpy() for batch in data.repeat(epochs)]

  found = [*orders((0, 0), 3), *orders((0, 1)), *orders((1, 0)), *orders((0, -1))]
  for i, order in enumerate(found):
    np.testing.assert_array_equal(np.sort(order), np.arange(50))
    assert all((order != other).any() for other in found[:i])


def test_orders_are_uniform():
  """Each of the six orders of three examples comes up equally often: χ² with 5 degrees of freedom."""
  rule = ClientBatches(np.arange(3), batch_size=3, seed=(0, 0)).rule
  draw = tf.constant([batch_rule.first_draw()], tf.uint64)

  @tf.function
  def order(key):
    return rule.order(key, draw, tf.constant(3))

  counts = collections.Counter(
    tuple(order(tf.constant([k * 2**32 + 5], tf.uint64)).numpy()) for k in range(600)
  )
  assert sum((count - 100) ** 2 / 100 for count in counts.values()) < 20.5  # p = 0.001


def test_cardinality_is_known():
  @tff.tensorflow.computation(BATCHES)
  def count(dataset):
    return dataset.cardinality(), dataset.repeat(2).cardinality(), dataset.repeat().cardinality()

  ten = ClientBatches(PLAIN, batch_size=4, end=10)
  assert tuple(count(ten)) == (3, 6, tf.data.INFINITE_CARDINALITY)
  assert ten.cardinality() == ten.as_dataset().cardinality().numpy() == 3
  none = ClientBatches(PLAIN, batch_size=4, end=0)
  assert tuple(count(none)) == (0, 0, 0)
  assert none.cardinality() == none.as_dataset().cardinality().numpy() == len(list(none)) == 0


def test_scalars_and_texts():
  words = np.array([b"to", b"be", b"or", b"not", b"be"], object)

  sequence = tff.SequenceType((tff.TensorType(np.str_, [None]), tff.TensorType(np.float32, [None])))

  @tff.tensorflow.computation(sequence)
  def weigh(dataset):
    def step(total, element):
      word, weight = element
      return total + tf.reduce_sum(tf.where(tf.equal(word, "be"), weight, 0.0))

    return dataset.reduce(tf.zeros([]), step)

  batches = ClientBatches((words, np.float32([1, 2, 4, 8, 16])), batch_size=2, seed=(1, 2))
  assert weigh(batches) == weigh(batches.as_dataset()) == 18
  assert program_of(weigh).reads_by_index


def test_without_the_remainder_batches_have_a_known_size():
  fixed = tff.SequenceType(tff.TensorType(np.int64, [4]))

  @tff.tensorflow.computation(fixed)
  def total(dataset):
    assert dataset.element_spec.shape == [4]
    return dataset.reduce(tf.zeros([4], tf.int64), lambda sums, batch: sums + batch)

  batches = ClientBatches(np.arange(10), batch_size=4, drop_remainder=True)
  assert batches.element_spec == batches.as_dataset().element_spec == tf.TensorSpec([4], tf.int64)
  np.testing.assert_array_equal(total(batches), [0 + 4, 1 + 5, 2 + 6, 3 + 7])


def test_data_among_the_results_are_a_data_set():
  @tff.tensorflow.computation(BATCHES)
  def first(dataset):
    return dataset.take(1)

  (batch,) = list(first(ClientBatches(PLAIN, batch_size=4)))
  np.testing.assert_array_equal(batch["y"], [0, 1, 2, 3])


def test_clients_by_index_and_by_iterator_can_alternate_and_mix():
  computation = on_clients(lambda data: data)
  by_index = ClientBatches(PLAIN, batch_size=4, end=10)
  iterated = by_index.as_dataset()
  noisy = ClientBatches(NOISY, batch_size=4, end=10)
  for clients in ([by_index], [iterated], [by_index, iterated], [by_index, noisy], [by_index]):
    for count, sizes, _ in computation(clients):
      assert (int(count), float(sizes)) == (3, 4 + 2 * 4 + 3 * 2)


def test_a_preprocess_function_that_needs_other_tensors_is_read_by_an_iterator():
  offset = tf.constant(100.0)
  examples = Examples(arrays(6), lambda batch, seed: {**batch, "x": batch["x"] + offset})
  computation = on_clients(lambda data: data)
  ((count, _, content),) = computation([ClientBatches(examples, batch_size=4)])
  assert (int(count), content > 100) == (2, True)
  assert not program_of(computation).reads_by_index


def test_a_new_preprocess_function_in_every_call_is_not_traced_again_and_again(monkeypatch):
  monkeypatch.setattr(context, "_MAX_RULES", 2)
  computation = on_clients(lambda data: data)
  for _ in range(3):
    examples = Examples(arrays(10), lambda batch, seed: dict(batch))
    ((count, sizes, _),) = computation([ClientBatches(examples, batch_size=4)])
    assert (int(count), float(sizes)) == (3, 4 + 2 * 4 + 3 * 2)
  assert not program_of(computation).reads_by_index


def test_mistakes_are_explained():
  with pytest.raises(ValueError, match=r"same number of examples.*found \(3,\), \(4,\)"):
    ClientBatches((np.zeros(3), np.zeros(4)), batch_size=2)
  with pytest.raises(ValueError, match="found begin=2, end=9"):
    ClientBatches(np.zeros(3), batch_size=2, begin=2, end=9)
  with pytest.raises(ValueError, match="batch_size of at least 1; found 0"):
    ClientBatches(np.zeros(3), batch_size=0)
  with pytest.raises(ValueError, match="give it to Examples"):
    ClientBatches(PLAIN, batch_size=2, preprocess=add_noise)
  with pytest.raises(TypeError, match="Expected elements of type"):
    on_clients(lambda data: data)([ClientBatches(np.zeros(3), batch_size=2)])
