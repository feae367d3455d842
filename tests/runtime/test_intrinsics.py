"""Each part of TFF's language, on the in-process runtime and on TFF's worker."""

import collections
from typing import NamedTuple

import attrs
import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum import runtime

CLIENT_FLOATS = tff.FederatedType(np.float32, tff.CLIENTS)
CLIENT_INTS = tff.FederatedType(np.int32, tff.CLIENTS)
SERVER_FLOAT = tff.FederatedType(np.float32, tff.SERVER)
FLOATS = [np.float32(v) for v in (1.5, -2.0, 4.25)]


class Pair(NamedTuple):
  first: object
  second: object


@attrs.define
class Record:
  a: object
  b: object


@tff.tensorflow.computation(np.float32)
def twice(x):
  return 2.0 * x


@tff.tensorflow.computation(np.float32, np.float32)
def add(x, y):
  return x + y


@tff.federated_computation(CLIENT_FLOATS, SERVER_FLOAT)
def arithmetic(values, offset):
  shifted = tff.federated_map(add, (values, tff.federated_broadcast(offset)))
  doubled = tff.federated_map(twice, shifted)
  return collections.OrderedDict(
    sum=tff.federated_sum(doubled),
    mean=tff.federated_mean(doubled),
    weighted=tff.federated_mean(doubled, shifted),
    min=tff.federated_min(values),
    max=tff.federated_max(values),
    each=doubled,
    server=tff.federated_map(twice, offset),
  )


@tff.federated_computation(CLIENT_FLOATS)
def two_passes(values):
  """The second pass needs the mean and a client value of the first one."""
  doubled = tff.federated_map(twice, values)
  mean = tff.federated_mean(doubled)
  shifted = tff.federated_map(add, (doubled, tff.federated_broadcast(mean)))
  return tff.federated_sum(shifted), mean, shifted


@tff.federated_computation(CLIENT_INTS)
def secure(values):
  return (
    tff.federated_secure_sum(values, 100),
    tff.federated_secure_sum_bitwidth(values, 8),
    tff.federated_sum(values),
  )


@tff.federated_computation(CLIENT_FLOATS)
def constants(values):
  everywhere = tff.federated_value(3, tff.CLIENTS)
  server = tff.federated_eval(tff.tensorflow.computation(lambda: tf.range(3)), tff.SERVER)
  clients = tff.federated_eval(tff.tensorflow.computation(lambda: tf.ones([2])), tff.CLIENTS)
  zipped = tff.federated_zip((everywhere, values))
  return everywhere, server, clients, tff.federated_sum(everywhere), zipped


@tff.federated_computation(CLIENT_FLOATS)
def concatenation(values):
  """An aggregate whose state grows, so its type has an unknown dimension."""
  state = tff.TensorType(np.float32, [None])

  @tff.tensorflow.computation
  def zero():
    return tf.zeros([0])

  @tff.tensorflow.computation(state, np.float32)
  def append(total, value):
    return tf.concat([total, [value]], axis=0)

  @tff.tensorflow.computation(state, state)
  def merge(a, b):
    return tf.concat([a, b], axis=0)

  @tff.tensorflow.computation(state)
  def report(total):
    return total

  return tff.federated_aggregate(values, zero(), append, merge, report)


@tff.federated_computation(
  tff.FederatedType(tff.TensorType(np.int32, [2]), tff.CLIENTS),
  tff.FederatedType(tff.TensorType(np.str_, [3]), tff.SERVER),
)
def selection(keys, words):
  select = tff.tensorflow.computation(
    lambda server, key: tf.gather(server, key), (tff.TensorType(np.str_, [3]), np.int32)
  )
  max_key = tff.federated_value(3, tff.SERVER)
  slices = tff.federated_select(keys, max_key, words, select)
  join = tff.tensorflow.computation(
    lambda dataset: dataset.reduce("", lambda a, b: a + b), tff.SequenceType(np.str_)
  )
  return tff.federated_map(join, slices)


@tff.federated_computation(tff.SequenceType(np.float32))
def sequences(sequence):
  doubled = tff.sequence_map(twice, sequence)
  return (
    tff.sequence_sum(doubled),
    tff.sequence_reduce(sequence, tff.tensorflow.computation(lambda: 1.0)(), add),
  )


@tff.federated_computation(
  tff.FederatedType(
    tff.SequenceType(collections.OrderedDict(b=np.float32, a=np.float32)), tff.CLIENTS
  )
)
def client_sequences(data):
  @tff.tensorflow.computation(collections.OrderedDict(b=np.float32, a=np.float32))
  def ratio(element):
    return element["b"] / element["a"]

  @tff.federated_computation(data.type_signature.member)
  def total(sequence):
    return tff.sequence_sum(tff.sequence_map(ratio, sequence))

  return tff.federated_map(total, data)


@tff.tensorflow.computation(np.int32)
def containers(x):
  return (
    Pair([x, x], collections.OrderedDict(z=x, y=tf.cast(x, tf.float32))),
    Record(a=tf.constant("text"), b=(x > 1, tf.ones([2, 2]))),
  )


@tff.tensorflow.computation(np.int32)
def variables_and_tables(x):
  keys = tf.constant([1, 2], tf.int32)
  table = tf.lookup.StaticHashTable(
    tf.lookup.KeyValueTensorInitializer(keys, keys * 10), default_value=-1
  )
  total = tf.Variable(0)
  with tf.control_dependencies([total.assign_add(x)]):
    return total.read_value(), table.lookup(x)


@tff.federated_computation(CLIENT_INTS)
def stateful_clients(values):
  return tff.federated_map(variables_and_tables, values)


def _records():
  return tf.data.Dataset.from_tensor_slices(collections.OrderedDict(b=[6.0, 9.0], a=[2.0, 3.0]))


CASES = {
  "arithmetic": (arithmetic, (FLOATS, np.float32(0.5))),
  "two_passes": (two_passes, (FLOATS,)),
  "secure": (secure, ([3, 5, 7],)),
  "constants": (constants, (FLOATS,)),
  "concatenation": (concatenation, (FLOATS,)),
  "selection": (selection, ([np.array([0, 2], np.int32)] * 2, ["x", "y", "z"])),
  "containers": (containers, (2,)),
  "stateful_clients": (stateful_clients, ([1, 2, 3],)),
  "unplaced": (add, (1.0, 2.0)),
}


@pytest.mark.parametrize("name", CASES)
def test_equals_the_stock_worker(agree, name):
  computation, arguments = CASES[name]
  agree(computation, *arguments)


def test_sequence_intrinsics(in_process):
  """TFF's worker does not support these."""
  with tff.framework.get_context_stack().install(in_process):
    dataset = tf.data.Dataset.range(5).map(lambda x: tf.cast(x, tf.float32))
    assert sequences(dataset) == (20.0, 11.0)
    assert sequences([1.0, 2.5]) == (7.0, 4.5)
    assert client_sequences([_records(), _records().take(1)]) == [6.0, 3.0]


def test_results_are_accepted_as_arguments(in_process):
  with tff.framework.get_context_stack().install(in_process):
    assert add(tf.constant(1.0), tf.Variable(2.0)) == 3.0
    assert twice(np.float32(1.0)) == 2.0


def test_no_clients_is_the_aggregate_of_nothing(in_process):
  with tff.framework.get_context_stack().install(in_process):
    assert secure([]) == (0, 0, 0)


@pytest.mark.parametrize(
  ("arguments", "message"),
  [
    (([1.0, 2.0], np.ones(2, np.float32)), r"Expected a value of type float32.*shape"),
    (([1.0, "text"], 1.0), "Expected a value of type float32"),
    ((1.0, 1.0), "Expected non-all-equal value with placement CLIENTS to be a `list` or `tuple`"),
    (([1.0], np.float64(1.0)), "Expected a value of type float32, found dtype float64"),
  ],
)
def test_wrong_arguments_are_named(in_process, arguments, message):
  with (
    tff.framework.get_context_stack().install(in_process),
    pytest.raises(TypeError, match=message),
  ):
    arithmetic(*arguments)


@pytest.mark.parametrize("value", [2**31, -(2**31) - 1, [1, 2**40], 2**70])
def test_integers_that_do_not_fit_are_refused(in_process, value):
  shape = [2] if isinstance(value, list) else []
  same = tff.tensorflow.computation(lambda x: x, tff.TensorType(np.int32, shape))
  with (
    tff.framework.get_context_stack().install(in_process),
    pytest.raises(TypeError, match=r"Expected a value of type int32.*found"),
  ):
    same(value)


def test_cohorts_of_different_size_are_refused(in_process):
  @tff.federated_computation(CLIENT_FLOATS, CLIENT_FLOATS)
  def both(x, y):
    return tff.federated_sum(tff.federated_map(add, (x, y)))

  with (
    tff.framework.get_context_stack().install(in_process),
    pytest.raises(ValueError, match="Conflicting cardinalities for CLIENTS: 3 vs 2"),
  ):
    both([1.0, 2.0], [1.0, 2.0, 3.0])


def test_a_secure_sum_over_its_maximum_is_an_error_in_the_words_of_tff(in_process):
  with (
    tff.framework.get_context_stack().install(in_process),
    pytest.raises(tf.errors.InvalidArgumentError, match="client value larger than maximum"),
  ):
    secure([3, 101, 7])


def test_an_error_names_the_client_and_the_operation(in_process):
  @tff.tensorflow.computation(np.int32)
  def fail_on_seven(x):
    with tf.control_dependencies(
      [tf.debugging.Assert(tf.not_equal(x, 7), ["seven is bad"], name="no_seven")]
    ):
      return tf.identity(x)

  @tff.federated_computation(CLIENT_INTS)
  def run(values):
    return tff.federated_sum(tff.federated_map(fail_on_seven, values))

  with tff.framework.get_context_stack().install(in_process):
    expected = r"(?s)client 2 of.*no_seven.*seven is bad"
    with pytest.raises(tf.errors.InvalidArgumentError, match=expected):
      run([1, 2, 7, 4])
    with (
      runtime.client_labels(lambda index: f"SCAFFOLD client {'abcd'[index]!r}"),
      pytest.raises(tf.errors.InvalidArgumentError, match="SCAFFOLD client 'c' failed"),
    ):
      run([1, 2, 7, 4])
    assert run([1, 2, 3]) == 6
