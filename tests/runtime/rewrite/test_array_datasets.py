"""Lists of batches give the same elements as the iterators of their data sets."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum.runtime import set_execution_context
from tff_momentum.runtime.rewrite import array_datasets

BATCHES = tff.SequenceType(
  collections.OrderedDict(
    x=tff.TensorType(np.float32, [None, 2]), y=tff.TensorType(np.int32, [None])
  )
)


@pytest.fixture(autouse=True)
def runtime():
  set_execution_context("inprocess")


def arrays(rows: int) -> collections.OrderedDict:
  return collections.OrderedDict(
    x=np.arange(2 * rows, dtype=np.float32).reshape(rows, 2), y=np.arange(rows, dtype=np.int32)
  )


def batches(rows: int, size: int = 4, **options) -> tf.data.Dataset:
  return tf.data.Dataset.from_tensor_slices(arrays(rows)).batch(size, **options)


def describe(dataset: tf.data.Dataset):
  """Returns three numbers that depend on the order, the sizes and the content of the batches."""

  def step(state, batch):
    k, sizes, content = state
    weight = tf.cast(k + 1, tf.float32)
    size = tf.cast(tf.shape(batch["y"])[0], tf.float32)
    total = tf.reduce_sum(batch["x"]) + tf.cast(tf.reduce_sum(batch["y"]), tf.float32)
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
def test_a_transformed_data_set_gives_the_same_elements(name):
  transform = TRANSFORMS[name]
  clients = [
    batches(10),
    batches(8),
    batches(3),
    batches(9, drop_remainder=True).prefetch(1),
    batches(0),
  ]
  assert all(map(array_datasets.is_listable, clients))
  found = on_clients(transform)(clients)
  for numbers, data in zip(found, clients, strict=True):
    np.testing.assert_array_equal(
      np.array(numbers, np.float64), np.array(describe(transform(data)), np.float64)
    )


def test_cardinality_is_known():
  @tff.tensorflow.computation(BATCHES)
  def count(dataset):
    return dataset.cardinality(), dataset.repeat(2).cardinality(), dataset.repeat().cardinality()

  assert tuple(count(batches(10))) == (3, 6, tf.data.INFINITE_CARDINALITY)
  assert tuple(count(batches(0))) == (0, 0, 0)


def test_single_rows_are_listed_too():
  @tff.tensorflow.computation(tff.SequenceType(tff.TensorType(np.float32, [2])))
  def total(dataset):
    return dataset.reduce(tf.zeros([2]), lambda state, row: 2.0 * state + row)

  rows = tf.data.Dataset.from_tensor_slices(arrays(3)["x"])
  assert array_datasets.is_listable(rows)
  np.testing.assert_array_equal(total(rows), [0 * 4 + 2 * 2 + 4, 1 * 4 + 3 * 2 + 5])


def test_data_sets_among_the_results_and_shuffled_ones_stay_data_sets():
  @tff.tensorflow.computation(BATCHES)
  def same(dataset):
    return dataset.take(1)

  (batch,) = list(same(batches(10)))
  np.testing.assert_array_equal(batch["y"], [0, 1, 2, 3])
  shuffled = batches(10).shuffle(3, seed=1)
  assert not array_datasets.is_listable(shuffled)
  (numbers,) = on_clients(lambda data: data)([shuffled])
  assert int(numbers[0]) == 3


def test_listed_and_iterated_clients_can_alternate():
  computation = on_clients(lambda data: data)
  for clients in ([batches(10)], [batches(10).map(lambda b: b)], [batches(10)]):
    ((count, sizes, _),) = computation(clients)
    assert (int(count), float(sizes)) == (3, 4 + 2 * 4 + 3 * 2)
