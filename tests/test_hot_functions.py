"""The mark on a client's gradient function survives TFF's serialisation and compilation."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.compiler import building_blocks, tree_analysis

import tff_momentum as tfm
from tff_momentum import hot_functions
from tff_momentum.runtime import compiler
from tff_momentum.runtime.rewrite import prepared_graphs, xla_calls

TIME, WORDS = 4, 5
layers = tf.keras.layers


def recurrent_process(algorithm):
  def build():
    parts = [layers.Embedding(WORDS, 3), layers.GRU(3), layers.Dense(WORDS)]
    return tf.keras.Sequential([layers.Input([TIME]), *parts])

  model = tfm.from_keras(
    build,
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    batch_spec=(tf.TensorSpec([None, TIME], tf.int32), tf.TensorSpec([None], tf.int32)),
  )
  return tfm.build_process(algorithm, model)


def rewritten_graphs(computation):
  """Returns the graphs that the in-process runtime runs, after TFF has serialised and compiled them."""
  proto = tff.framework.ConcreteComputation.get_proto(computation)
  received = tff.framework.ConcreteComputation(
    computation_proto=type(proto).FromString(proto.SerializeToString()),
    context_stack=tff.framework.get_context_stack(),
  )
  found = []

  def collect(block):
    if isinstance(block, building_blocks.CompiledComputation):
      found.append(prepared_graphs.prepare(block.proto).graph_def)

  tree_analysis.visit_postorder(compiler.compile_computation(received), collect)
  return found


def marked_functions(graphs):
  library = [function for graph in graphs for function in graph.library.function]
  return [f for f in library if hot_functions.full_batch_argument(f) is not None]


@pytest.mark.parametrize("name", ["fedavg", "mime"])
def test_the_mark_survives_tff_and_decides_what_xla_compiles(name):
  """A round of a recurrent model: without the mark nothing would be compiled, and nobody would notice."""
  process = recurrent_process(tfm.algorithms.builder(name)(client_learning_rate=0.1))
  marked = marked_functions(rewritten_graphs(process.next))
  assert marked
  assert any(map(xla_calls.is_compiled, marked))


def test_only_marked_functions_are_compiled():
  @tf.function(autograph=False)
  def plain(w):
    loop = tf.while_loop(lambda i, w: i < 5, lambda i, w: (i + 1, tf.tanh(w)), (0, w))
    return loop[1]

  @tff.tensorflow.computation(tff.TensorType(np.float32, [3]))
  def computation(w):
    return plain(w)

  graphs = rewritten_graphs(computation)
  assert not marked_functions(graphs)
  assert not any(xla_calls.is_compiled(f) for graph in graphs for f in graph.library.function)


def test_an_argument_of_that_name_must_be_boolean():
  @tf.function(input_signature=[tf.TensorSpec([], tf.float32)])
  def wrong(tfm_full_batch):
    return tfm_full_batch

  with pytest.raises(ValueError, match=r"tfm_full_batch of .* to be boolean, found float32"):
    hot_functions.full_batch_argument(wrong.get_concrete_function().function_def)
