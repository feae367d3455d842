"""Functions are prepared by a run without data, which nobody notices."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum.runtime import ClientBatches, create_inprocess_context, functions

BATCHES = tff.SequenceType(tff.TensorType(np.float32, [None]))
DATA = [ClientBatches(np.full(4, i, np.float32), batch_size=2) for i in range(3)]


@pytest.fixture(autouse=True)
def runtime():
  tff.framework.set_default_context(create_inprocess_context("cpu"))


def weighted_sum(local):
  in_graph = tf.function(local, autograph=False)

  @tff.tensorflow.computation(np.float32, BATCHES)
  def client(factor, data):
    return in_graph(factor, data)

  @tff.federated_computation(
    tff.FederatedType(np.float32, tff.SERVER), tff.FederatedType(BATCHES, tff.CLIENTS)
  )
  def everywhere(factor, data):
    first = tff.federated_sum(tff.federated_map(client, (tff.federated_broadcast(factor), data)))
    return tff.federated_sum(tff.federated_map(client, (tff.federated_broadcast(first), data)))

  return everywhere


def total(factor, data):
  return factor * data.reduce(0.0, lambda sum, batch: sum + tf.reduce_sum(batch))


@pytest.fixture
def calls(monkeypatch):
  """The names of the clients' functions, in the order of their calls."""
  found = []
  execute = functions.execute

  def counted(name, *arguments, **options):
    if "client" in name:
      found.append(name)
    return execute(name, *arguments, **options)

  monkeypatch.setattr(functions, "execute", counted)
  return found


@pytest.mark.parametrize("cohort", [DATA, DATA * 25])
def test_each_function_is_prepared_once(calls, cohort):
  computation = weighted_sum(total)
  factor = 12.0 * len(cohort) / 3
  assert computation(1.0, cohort) == factor**2
  first = len(calls)
  assert computation(1.0, cohort) == factor**2
  if len(cohort) == 3:
    assert first == 2 + 6  # two functions, each prepared once and called for three clients
    assert len(calls) == first + 6
  assert len(set(calls)) == 2


def test_what_prints_is_not_prepared(calls):
  def prints(factor, data):
    tf.print("client")
    return total(factor, data)

  weighted_sum(prints)(1.0, DATA)
  assert len(calls) == 6


def test_values_that_refuse_zeros_are_no_error():
  def positive(factor, data):
    with tf.control_dependencies([tf.debugging.Assert(factor > 0, ["a factor above 0"])]):
      return total(tf.identity(factor), data)

  assert weighted_sum(positive)(1.0, DATA) == 144.0
  with pytest.raises(tf.errors.InvalidArgumentError, match="a factor above 0"):
    weighted_sum(positive)(-1.0, DATA)
