"""A failing client's error names the algorithm, the client and the operation."""

import types

import pytest
import tensorflow as tf

import tff_momentum as tfm
from tests.helpers import harness
from tff_momentum.runtime import set_execution_context


def dataset(client, seed, batch_size):
  examples = harness.client_examples(0)
  data = tf.data.Dataset.from_tensor_slices(examples).batch(batch_size)
  if client != "f_13":
    return data
  return data.map(spoil)


def spoil(x, y):
  tf.debugging.assert_less(tf.reduce_max(y), -1, "a spoilt label", name="label_check")
  return x, y


def test_an_error_in_a_round_names_the_algorithm_the_client_and_the_operation():
  set_execution_context("inprocess")
  task = types.SimpleNamespace(
    clients=["f_12", "f_13", "f_14"],
    dataset=dataset,
    evaluation=lambda batch_size: dataset("f_12", None, batch_size),
  )
  scaffold = tfm.algorithms.scaffold(client_learning_rate=0.1, num_clients=3)
  process = tfm.build_process(scaffold, harness.softmax_model())
  expected = r"(?s)scaffold: client f_13 failed in operation '.*label_check.*a spoilt label"
  with pytest.raises(tf.errors.InvalidArgumentError, match=expected):
    tfm.run(process, task, total_rounds=1, clients_per_round=3)


def test_a_built_algorithm_has_the_name_it_was_requested_by():
  for name in ("fedavgm", "mimexlite", "mime"):
    assert tfm.algorithms.builder(name)(client_learning_rate=0.1).name == name
