"""Recurrent layers on GPUs: clients' functions hold cuDNN's kernels if so decided; on CPUs they never do."""

import collections

import numpy as np
import pytest
import tensorflow as tf
from tensorflow.core.framework import function_pb2

import tff_momentum as tfm
from tff_momentum import algorithms, hot_functions
from tff_momentum.runtime import context as context_lib
from tff_momentum.runtime import gpu_kernels
from tff_momentum.runtime.rewrite.function_defs import LOOPS
from tff_momentum.runtime.rewrite.options import RewriteOptions
from tff_momentum.runtime.rewrite.xla_calls import is_compiled

LAYERS = tf.keras.layers
CUDNN = {"CudnnRNN", "CudnnRNNBackprop"}
MASKED = {"CudnnRNNV3", "CudnnRNNBackpropV3"}


def cross_entropy(labels, logits):
  return tf.reduce_mean(
    tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
  )


def process_of(*recurrent, mask=False):
  def build():
    ends = [LAYERS.InputLayer((6,), dtype=tf.int32), LAYERS.Embedding(5, 3, mask_zero=mask)]
    return tf.keras.Sequential([*ends, *(layer() for layer in recurrent), LAYERS.Dense(5)])

  spec = (tf.TensorSpec([None, 6], tf.int32), tf.TensorSpec([None], tf.int32))
  model = tfm.from_keras(build, loss=cross_entropy, batch_spec=spec)
  return tfm.build_process(algorithms.fedavg(client_learning_rate=0.1), model)


def client_functions(process, **options):
  """Returns the definitions of the clients' function and of all functions that it calls."""
  examples = (np.zeros([8, 6], np.int32), np.zeros([8], np.int32))
  rewrites = RewriteOptions(tfm.ClientBatches(examples, batch_size=4).rule, **options)
  found = []
  for level in context_lib.program_of(process.next).levels(rewrites, looped=False):
    if level.clients:
      _, _, definitions = level.clients.function(False).function.definitions()
      found += [function_pb2.FunctionDef.FromString(each) for each in definitions]
  return found


def ops_of(definitions):
  return collections.Counter(node.op for each in definitions for node in each.node_def)


@pytest.fixture
def knows_gpus(monkeypatch):
  """Lets this process trace as one that sees GPUs."""
  monkeypatch.setattr(hot_functions, "_traces_variants", True)


def lstm(**options):
  return lambda: LAYERS.LSTM(4, **options)


def gru(**options):
  return lambda: LAYERS.GRU(4, **options)


@pytest.mark.parametrize("layer", [lstm, gru])
@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.usefixtures("knows_gpus")
def test_on_gpus_cudnns_kernel_is_used(layer, mask):
  process = process_of(layer(return_sequences=True), layer(), mask=mask)
  found = client_functions(process, device="GPU")
  ops = ops_of(found)
  assert {op for op in ops if "Cudnn" in op} == (MASKED if mask else CUDNN)
  assert {ops[op] for op in ops if "Cudnn" in op} == {2}
  assert not any(map(is_compiled, found))
  for each in found:
    kernels = [node for node in each.node_def if "Cudnn" in node.op]
    assert all(map(gpu_kernels.has_gpu_kernel, kernels))
    loops_over_time = any(node.op in LOOPS for node in each.node_def)
    assert not (kernels and loops_over_time)


@pytest.mark.usefixtures("knows_gpus")
def test_xla_compiles_recurrent_layers_if_so_decided_and_on_cpus():
  process = process_of(lstm())
  for options in ({"device": "GPU", "recurrent": "xla"}, {"device": "CPU"}, {"compile": "on"}):
    found = client_functions(process, **options)
    assert not any("Cudnn" in op for op in ops_of(found))
    assert any(map(is_compiled, found))


@pytest.mark.parametrize(
  "layer",
  [lstm(recurrent_dropout=0.1), lstm(activation="relu"), lstm(unroll=True), gru(reset_after=False)],
  ids=["recurrent_dropout", "relu", "unroll", "reset_before"],
)
@pytest.mark.usefixtures("knows_gpus")
def test_layers_that_keras_would_not_run_with_cudnn_stay_as_they_are(layer):
  ops = ops_of(client_functions(process_of(layer), device="GPU"))
  assert not any("Cudnn" in op for op in ops)


def test_graphs_for_cpus_are_the_same_as_without_the_variant(monkeypatch):
  monkeypatch.setattr(hot_functions, "_traces_variants", False)  # another test may have set it
  plain = ops_of(client_functions(process_of(lstm())))
  monkeypatch.setattr(hot_functions, "_traces_variants", True)
  ops = ops_of(client_functions(process_of(lstm())))
  # The node that names the variant, in the compiled hot function and in the one for smaller batches.
  assert ops - plain == {"NoOp": 2}
  assert plain - ops == {}


def test_a_process_without_gpus_traces_no_variant(monkeypatch):
  monkeypatch.setattr(hot_functions, "_traces_variants", False)
  assert not tf.config.get_visible_devices("GPU")
  definitions = client_functions(process_of(lstm()), device="GPU")
  assert all(hot_functions.gpu_variant(each) is None for each in definitions)
