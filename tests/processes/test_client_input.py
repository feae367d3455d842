"""`process.next` with bare data sets, and what it says where they do not suffice."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tff_momentum as tfm
from tff_momentum.client import LocalWork


def model():
  return tfm.from_keras(
    lambda: tf.keras.Sequential(
      [tf.keras.layers.Dropout(0.5, input_shape=(4,)), tf.keras.layers.Dense(3)]
    ),
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    batch_spec=(tf.TensorSpec([None, 4]), tf.TensorSpec([None], tf.int32)),
  )


def datasets(count=3):
  rng = np.random.default_rng(0)
  return [
    tf.data.Dataset.from_tensor_slices(
      (rng.normal(size=(7, 4)).astype(np.float32), rng.integers(0, 3, 7).astype(np.int32))
    ).batch(3)
    for _ in range(count)
  ]


def stateless():
  return tfm.build_process(tfm.algorithms.fedavg(client_learning_rate=0.1), model())


@pytest.mark.parametrize("runtime", ["inprocess", "tff"])
def test_bare_data_sets_stand_for_inputs_seeded_by_round_and_position(runtime):
  """The model has dropout, so another seed would give other weights."""
  tfm.set_execution_context(runtime)
  try:
    process, data = stateless(), datasets()
    bare = explicit = process.initialize()
    for t in range(2):
      bare = process.next(bare, data).state
      inputs = [tfm.ClientInput(np.array([t, i], np.int32), (), d) for i, d in enumerate(data)]
      explicit = process.next(explicit, inputs).state
    tf.nest.map_structure(
      np.testing.assert_array_equal, process.weights(bare), process.weights(explicit)
    )
    swapped = process.next(process.next(process.initialize(), data[::-1]).state, data).state
    assert (process.weights(swapped)[0] != process.weights(bare)[0]).any()
  finally:
    tfm.set_execution_context()


def test_next_is_an_ordinary_tff_computation():
  process = stateless()
  assert isinstance(process.next, tff.Computation)
  assert isinstance(process.next, tff.framework.ConcreteComputation)
  assert process.next == process.next
  state_type, clients_type = process.next.type_signature.parameter

  @tff.federated_computation(state_type, clients_type)
  def round_in_a_larger_computation(state, clients):
    return process.next(state, clients).metrics

  inputs = [tfm.ClientInput(np.array([0, i], np.int32), (), d) for i, d in enumerate(datasets())]
  assert round_in_a_larger_computation(process.initialize(), inputs)["clients"] == 3


def test_clients_that_keep_a_state_need_inputs():
  process = tfm.build_process(
    tfm.algorithms.scaffold(client_learning_rate=0.1, num_clients=3), model()
  )
  with pytest.raises(ValueError, match=r"Expected a ClientInput with state .*initial_client_state"):
    process.next(process.initialize(), datasets())


def test_clients_with_steps_of_their_own_need_inputs():
  process = tfm.build_process(
    tfm.algorithms.fedavg(client_learning_rate=0.1), model(), work=LocalWork(uneven=True)
  )
  with pytest.raises(ValueError, match="Expected a ClientInput with steps for each client"):
    process.next(process.initialize(), datasets())


@pytest.mark.parametrize(
  ("clients", "message"),
  [
    (lambda data: data[0], r"Expected a list with the data set of each client.*write \[data\]"),
    (lambda data: [d.unbatch() for d in data], "found <float32.4.,int32>: batch the data set"),
    (
      lambda data: [d.map(lambda x, y: x) for d in data],
      "Expected batches of the model's batch_spec",
    ),
    (
      lambda data: [data[0], tfm.ClientInput(np.zeros(2, np.int32), (), data[1])],
      "found data sets and ClientInput",
    ),
  ],
)
def test_other_arguments_are_answered_with_one_sentence(clients, message):
  process = stateless()
  with pytest.raises(ValueError, match=message):
    process.next(process.initialize(), clients(datasets()))
