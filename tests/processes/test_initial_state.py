"""`initialize` runs with the weights as an argument, and is still a computation without a parameter."""

import subprocess
import sys

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

import tff_momentum as tfm
from tests import ROOT


def one_weight():
  model = tfm.from_keras(
    lambda: tf.keras.Sequential([tf.keras.layers.Dense(2, use_bias=False, input_shape=(3,))]),
    loss=tf.keras.losses.MeanSquaredError(),
    batch_spec=(tf.TensorSpec([None, 3]), tf.TensorSpec([None, 2])),
  )
  algorithm = tfm.algorithms.fedavgm(client_learning_rate=0.1)
  return model, tfm.build_process(algorithm, model)


def test_the_first_state_holds_the_initial_weights():
  tfm.set_execution_context("inprocess")
  model, process = one_weight()
  state = process.initialize()
  assert int(state.round) == 0
  np.testing.assert_array_equal(process.weights(state)[0], model.initial_weights[0])


def test_it_holds_no_weights_until_it_is_part_of_another_computation():
  tfm.set_execution_context("inprocess")
  model, process = one_weight()
  initialize = process.initialize
  assert initialize.type_signature.parameter is None
  process.initialize()
  assert "_computation_proto" not in vars(initialize)

  @tff.federated_computation
  def doubled():
    return initialize(), initialize()

  for state in doubled():
    np.testing.assert_array_equal(process.weights(state)[0], model.initial_weights[0])


def test_a_large_model_starts_with_few_copies_of_its_weights():
  """Twelve layers of 16 MB; it used to take more than ten copies."""
  program = """
import resource
import tensorflow as tf, tff_momentum as tfm
tfm.set_execution_context("inprocess")
spec = (tf.TensorSpec([None, 2048]), tf.TensorSpec([None, 2048]))
def process(layers):
  dense = lambda: tf.keras.layers.Dense(2048, use_bias=False)
  build = lambda: tf.keras.Sequential([tf.keras.Input([2048]), *(dense() for _ in range(layers))])
  model = tfm.from_keras(build, loss=tf.keras.losses.MeanSquaredError(), batch_spec=spec)
  return tfm.build_process(tfm.algorithms.fedavgm(client_learning_rate=0.1), model)
peak = lambda: 1024 * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
process(1).initialize()
before, large = peak(), process(12)
state = large.initialize()
print((peak() - before) / large.model.num_bytes)
"""
  command = [sys.executable, "-c", program]
  done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300, check=True)
  assert float(done.stdout.split()[-1]) < 4
