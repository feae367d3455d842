"""The loop of a reduction carries only what its results need."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow.core.framework import function_pb2

from tff_momentum.runtime import ClientBatches, create_inprocess_context
from tff_momentum.runtime import context as context_lib

BATCHES = tff.SequenceType(tff.TensorType(np.float32, [None]))
DATA = [
  ClientBatches(np.arange(5, dtype=np.float32), batch_size=2),
  ClientBatches(np.ones(3, np.float32), batch_size=2),
]


@pytest.fixture(autouse=True)
def runtime():
  tff.framework.set_default_context(create_inprocess_context("cpu"))


def at_clients(local):
  in_graph = tf.function(local, autograph=False)

  @tff.tensorflow.computation(BATCHES)
  def client(data):
    return in_graph(data)

  @tff.federated_computation(tff.FederatedType(BATCHES, tff.CLIENTS))
  def everywhere(data):
    return tff.federated_map(client, data)

  return everywhere


def loop_variables(computation) -> list[int]:
  """Returns the data types of the variables of the only loop in the clients' function."""
  program = context_lib.program_of(computation)
  ((level,),) = program._levels.values()
  loops = [
    node
    for definition in level.clients.function(False).function.definitions()[2]
    for node in function_pb2.FunctionDef.FromString(definition).node_def
    if node.op == "While"
  ]
  (loop,) = loops
  return list(loop.attr["T"].list.type)


def total(data, *, numbered: bool, rate: tf.Tensor):
  """Adds up the batches; the state also has a counter, which `numbered` makes part of the sum."""

  def step(state, batch):
    k, total, copies = state
    weight = tf.cast(k, tf.float32) if numbered else 1.0
    return k + 1, total + rate * weight * tf.reduce_sum(batch), copies + 1

  start = (tf.zeros([], tf.int32), tf.zeros([]), tf.zeros([], tf.int64))
  return data.reduce(start, step)[1]


@pytest.mark.parametrize("numbered", [False, True])
def test_counters_that_nobody_reads_are_not_carried(numbered):
  computation = at_clients(lambda data: total(data, numbered=numbered, rate=tf.constant(2.0)))
  found = [float(value) for value in computation(DATA)]
  sums = [[1.0, 5.0, 4.0], [2.0, 1.0]]
  expected = [sum(2 * (k if numbered else 1) * s for k, s in enumerate(each)) for each in sums]
  np.testing.assert_allclose(found, expected)
  carried = [tf.as_dtype(dtype) for dtype in loop_variables(computation)]
  assert carried.count(tf.float32) == 1  # the total; the rate is a constant
  assert carried.count(tf.int32) == numbered  # k
  assert carried.count(tf.int64) == 2  # the position and the number of batches, but no copies


def test_an_output_keeps_a_value_that_no_step_reads():
  def last_size(data):
    return data.reduce(tf.zeros([], tf.int32), lambda _, batch: tf.size(batch))

  assert [int(size) for size in at_clients(last_size)(DATA)] == [1, 1]


def test_a_number_of_batches_that_is_known_needs_no_branch():
  def count(data):
    known = data.cardinality()
    return tf.cond(
      known >= 0, lambda: known, lambda: data.reduce(tf.zeros([], tf.int64), lambda n, _: n + 1)
    )

  computation = at_clients(count)
  assert [int(number) for number in computation(DATA)] == [3, 2]
  program = context_lib.program_of(computation)
  ((level,),) = program._levels.values()
  operations = {
    node.op
    for definition in level.clients.function(False).function.definitions()[2]
    for node in function_pb2.FunctionDef.FromString(definition).node_def
  }
  assert operations.isdisjoint({"If", "StatelessIf", "While"})
