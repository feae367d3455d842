"""Computations that leave the order of reads and changes open: equal calls give equal results.

The results are those of TFF's worker. None of these computations says whether a variable is read
before or after `reduce` changes it.
"""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.runtime.conftest import assert_same

NUMBERS = tff.SequenceType(np.float32)
CLIENTS = 64


def a_variable_changed_by_reduce(numbers):
  bias, weights = tf.Variable(0.0), tf.Variable(tf.zeros([3]))

  def step(count, number):
    bias.assign_add(number)
    weights.assign_add(tf.fill([3], number))
    return count + 1

  return numbers.reduce(0, step), bias, weights


def a_reduce_inside_a_function(numbers):
  total = tf.Variable(1.0)

  @tf.function
  def add_all(numbers):
    return numbers.reduce(0, lambda count, number: (total.assign_add(number), count + 1)[1])

  return add_all(numbers), total


def a_loop_inside_a_function(numbers):
  total = tf.Variable(1.0)

  @tf.function
  def add_all(numbers):
    for number in numbers:
      total.assign_add(number)
    return 2.0 * total

  return add_all(numbers), total


def reads_before_and_after(numbers):
  total = tf.Variable(1.0)
  before = total + 1.0
  count = numbers.reduce(0, lambda count, number: (total.assign_add(number), count + 1)[1])
  after = total + 1.0
  with tf.control_dependencies([count]):
    ordered = total + 1.0
  return before, count, after, ordered


def two_reduces(numbers):
  total = tf.Variable(1.0)
  added = numbers.reduce(0, lambda count, number: (total.assign_add(number), count + 1)[1])
  doubled = numbers.reduce(0, lambda count, number: (total.assign(2.0 * total), count + 1)[1])
  return total, added, doubled


def a_change_inside_a_map(numbers):
  total = tf.Variable(1.0)
  return numbers.map(total.assign_add).reduce(0.0, lambda found, number: found + number), total


def a_table(numbers):
  table = tf.lookup.experimental.MutableHashTable(tf.string, tf.float32, -1.0)
  count = numbers.reduce(0, lambda count, number: (table.insert("a", number), count + 1)[1])
  return count, table.lookup("a"), table.size()


def a_keras_model(numbers):
  model = tf.keras.Sequential(
    [tf.keras.layers.Dense(1, kernel_initializer="ones", input_shape=(1,))]
  )

  def step(total, number):
    with tf.GradientTape() as tape:
      loss = tf.reduce_sum((model(tf.reshape(number, [1, 1])) - 1.0) ** 2)
    gradients = tape.gradient(loss, model.trainable_variables)
    for variable, gradient in zip(model.trainable_variables, gradients, strict=True):
      variable.assign_sub(0.01 * gradient)
    return total + loss

  return numbers.reduce(0.0, step), model.trainable_variables


RACES = [
  a_variable_changed_by_reduce,
  a_reduce_inside_a_function,
  a_loop_inside_a_function,
  reads_before_and_after,
  two_reduces,
  a_change_inside_a_map,
  a_table,
  a_keras_model,
]


def numbers():
  return tf.data.Dataset.from_tensor_slices([1.0, 2.0, 3.0])


def on_clients(race):
  local = tff.tensorflow.computation(race, NUMBERS)

  @tff.federated_computation(tff.FederatedType(NUMBERS, tff.CLIENTS))
  def everywhere(data):
    return tff.federated_map(local, data)

  return everywhere


@pytest.mark.parametrize("race", RACES, ids=lambda race: race.__name__)
def test_every_client_gives_the_value_of_the_stock_worker(in_process, worker, race):
  computation = on_clients(race)
  with tff.framework.get_context_stack().install(worker):
    (expected,) = computation([numbers()])
  with tff.framework.get_context_stack().install(in_process):
    for data in (numbers(), numbers().map(lambda number: number)):
      for found in computation([data] * CLIENTS):
        assert_same(expected, found, rtol=1e-6)


def test_changes_without_any_order_happen_in_the_order_of_the_program(in_process):
  """TFF's worker has no answer here: it gives five different ones."""

  @tff.tensorflow.computation(np.float32)
  def change_twice(x):
    total = tf.Variable(1.0)
    first = tf.identity(total)
    total.assign_add(x)
    second = tf.identity(total)
    changed = total.assign(10.0 * total)
    return first, second, tf.identity(total), changed

  # The sum is not needed for any result, so it is not computed: that is how TensorFlow 1 works.
  with tff.framework.get_context_stack().install(in_process):
    assert {tuple(map(float, change_twice(2.0))) for _ in range(50)} == {(1.0, 1.0, 10.0, 10.0)}


def test_variables_that_start_from_others_are_initialised_in_order(in_process):
  @tff.tensorflow.computation(np.float32)
  def scale(x):
    first = tf.Variable(2.0)
    second = tf.Variable(3.0 * first)
    return x * second

  with tff.framework.get_context_stack().install(in_process):
    assert {float(scale(2.0)) for _ in range(50)} == {12.0}
