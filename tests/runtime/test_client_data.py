"""Data sets of every form reach clients unchanged: the results equal those of TFF's stock worker."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum import runtime

OrderedDict = collections.OrderedDict
slices = tf.data.Dataset.from_tensor_slices

VALUES = {
  "int32": np.array([7, 0, -3], np.int32),
  "int64": np.array([2**40, 0, -3], np.int64),
  "float32": np.array([0.5, -0.0, np.inf], np.float32),
  "float64": np.array([0.1, 0.2, 0.3], np.float64),
  "float16": np.array([0.5, 1.0, 2.0], np.float16),
  "uint8": np.array([255, 0, 1], np.uint8),
  "bool": np.array([True, False, True]),
  "complex64": np.array([1 + 2j, 0, -1j], np.complex64),
  "string": np.array([b"a", b"", b"\xff\x00"], object),
}


def on_clients(local, element):
  """Returns a computation that maps a function of a data set over the clients."""
  sequence = tff.SequenceType(element)
  mapped = tff.tensorflow.computation(local, sequence)

  @tff.federated_computation(tff.FederatedType(sequence, tff.CLIENTS))
  def everywhere(data):
    return tff.federated_map(mapped, data)

  return everywhere


def dtype_of(values):
  return np.str_ if values.dtype == object else values.dtype.type


@pytest.mark.parametrize("name", VALUES)
def test_scalars_of_every_type(agree, name):
  values = VALUES[name]
  tensor = tf.constant(values)

  def collect(dataset):
    empty = tf.zeros([0], tensor.dtype)
    return dataset.reduce(empty, lambda found, value: tf.concat([found, [value]], axis=0))

  computation = on_clients(collect, dtype_of(values))
  found = agree(computation, [slices(tensor), slices(tensor[:1]), slices(tensor[:0]), []])
  np.testing.assert_array_equal(found[0], values)
  assert [len(part) for part in found] == [3, 1, 0, 0]


def examples(count):
  """Returns examples without a batch dimension: vectors with scalar labels."""
  x = np.arange(2 * count, dtype=np.float32).reshape(count, 2)
  return OrderedDict(x=x, y=np.arange(count, dtype=np.int32))


EXAMPLE = OrderedDict(x=tff.TensorType(np.float32, [2]), y=np.int32)


def reduce_examples(dataset):
  return dataset.reduce(
    tf.zeros([2]), lambda total, e: 2.0 * total + e["x"] * tf.cast(e["y"], tf.float32)
  )


def loop(dataset):
  total = tf.zeros([2])
  for example in dataset:
    total = 2.0 * total + example["x"]
  return total


LOCAL = {
  "reduced": reduce_examples,
  "batched": lambda data: data.batch(2).reduce(0, lambda n, e: 3 * n + tf.size(e["y"])),
  "dropped": lambda data: data.batch(2, drop_remainder=True).reduce(0, lambda n, e: n + e["y"][1]),
  "repeated": lambda data: reduce_examples(data.repeat(2).take(5)),
  "mapped": lambda data: reduce_examples(data.map(lambda e: OrderedDict(x=-e["x"], y=1 + e["y"]))),
  "filtered": lambda data: reduce_examples(data.filter(lambda e: e["y"] > 0).prefetch(1)),
  "windowed": lambda data: data.window(2).reduce(0, lambda n, w: n + 1),
  "counted": lambda data: data.cardinality(),
  "enumerated": lambda data: data.enumerate().reduce(tf.zeros([], tf.int64), lambda n, e: n + e[0]),
  "in a for loop": tf.function(loop),
  "zipped with itself": lambda data: tf.data.Dataset.zip((data, data.skip(1))).reduce(
    0, lambda n, pair: n + pair[0]["y"] * pair[1]["y"]
  ),
}


@pytest.mark.parametrize("name", LOCAL)
def test_unbatched_examples_with_scalar_labels(agree, name):
  agree(on_clients(LOCAL[name], EXAMPLE), [slices(examples(n)) for n in (4, 1, 0)])


def test_results_that_are_data_sets(in_process, worker):
  computation = tff.tensorflow.computation(
    lambda data: data.map(lambda e: OrderedDict(z=e["y"], a=2.0 * e["x"])),
    tff.SequenceType(EXAMPLE),
  )
  results = []
  for context in (in_process, worker):
    with tff.framework.get_context_stack().install(context):
      results.append(list(computation(slices(examples(3)))))
  tf.nest.map_structure(np.testing.assert_array_equal, *results)
  assert [int(element["z"]) for element in results[0]] == [0, 1, 2]


def test_nested_elements_keep_their_names(agree):
  element = OrderedDict(
    z=OrderedDict(b=np.int32, a=(np.float32, tff.TensorType(np.str_, [2]))), a=np.bool_
  )

  def describe(dataset):
    def step(state, e):
      number, total, text = state
      number = 3 * number + e["z"]["b"] + tf.cast(e["a"], tf.int32)
      return number, total + e["z"]["a"][0], text + tf.strings.reduce_join(e["z"]["a"][1])

    return dataset.reduce((0, 0.0, ""), step)

  data = OrderedDict(
    z=OrderedDict(b=[1, 2], a=([0.5, 0.25], [["p", "q"], ["r", ""]])), a=[True, False]
  )
  ((number, total, text),) = agree(on_clients(describe, element), [slices(data)])
  assert (number, total, text) == (3 * (1 + 1) + 2, 0.75, b"pqr")


def test_elements_of_different_lengths(agree):
  """Ragged data has an unknown dimension in TFF's types; clients may batch it as ragged tensors."""
  rows = tf.ragged.constant([[1, 2, 3], [], [4]], dtype=tf.int32)

  def lengths(dataset):
    return dataset.ragged_batch(2).reduce(
      tf.zeros([0], tf.int64), lambda found, batch: tf.concat([found, batch.row_lengths()], axis=0)
    )

  data = slices(rows).map(lambda row: tf.concat([row, row], axis=0))
  (found,) = agree(on_clients(lengths, tff.TensorType(np.int32, [None])), [data])
  assert list(found) == [6, 0, 2]


def test_sparse_batches_inside_a_client(agree):
  def total(dataset):
    sparse = dataset.map(tf.sparse.from_dense)
    return sparse.reduce(0, lambda found, row: found + 10 * tf.size(row.values, tf.int32) + 1)

  rows = np.array([[0, 5, 0], [0, 0, 0], [1, 2, 3]], np.int32)
  assert agree(on_clients(total, tff.TensorType(np.int32, [3])), [slices(rows)]) == [43]


def test_lists_stand_for_data_sets(agree):
  elements = [OrderedDict(x=np.array([i, 1], np.float32), y=i) for i in range(3)]
  agree(on_clients(reduce_examples, EXAMPLE), [elements, elements[:1]])


def test_client_batches_are_data_sets_to_the_worker(agree):
  batch = OrderedDict(x=tff.TensorType(np.float32, [None, 2]), y=tff.TensorType(np.int32, [None]))

  def collect(dataset):
    empty = tf.zeros([0], tf.int32)
    repeated = dataset.repeat(3).take(5)
    return repeated.reduce(empty, lambda found, b: tf.concat([found, b["y"]], axis=0))

  def noisy(batch, seed):
    draws = tf.random.stateless_uniform(tf.shape(batch["y"]), seed, 0, 100, tf.int32)
    return OrderedDict(x=batch["x"], y=100 * batch["y"] + draws)

  clients = [
    runtime.ClientBatches(examples(7), batch_size=3, seed=(i, 1), preprocess=noisy)
    for i in range(3)
  ]
  found = agree(on_clients(collect, batch), clients)
  assert [len(part) for part in found] == [3 + 3 + 1 + 3 + 3] * 3
  assert sorted(found[0][:7] // 100) == list(range(7))
