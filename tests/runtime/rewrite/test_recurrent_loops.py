"""Moving work out of the loops of recurrent layers does not change their results."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tff_momentum as tfm
from tff_momentum import hot_functions, runtime
from tff_momentum.runtime.rewrite import function_defs, prepared_graphs, xla_calls
from tff_momentum.runtime.rewrite.options import RewriteOptions, using

BATCH, TIME, WORDS = 4, 6, 7
layers = tf.keras.layers

LAYERS = {
  "dropout": lambda: layers.LSTM(5, dropout=0.3, recurrent_dropout=0.3, return_sequences=True),
  "gru": lambda: layers.GRU(5, return_sequences=True),
  "gru_before": lambda: layers.GRU(5, reset_after=False, return_sequences=True),
  "lstm": lambda: layers.LSTM(5, return_sequences=True),
  "simple": lambda: layers.SimpleRNN(5, return_sequences=True),
  "last": lambda: layers.LSTM(5),
  "backwards": lambda: layers.GRU(5, go_backwards=True, return_sequences=True),
  "both_ways": lambda: layers.Bidirectional(layers.GRU(5, return_sequences=True)),
  "two": lambda: layers.RNN([layers.GRUCell(5), layers.LSTMCell(4)], return_sequences=True),
}


def _training(layer, mask: bool, batch: int | None = BATCH):
  """Returns a computation that takes a gradient step on each batch, its initial weights, and data."""

  def build():
    parts = [layers.Embedding(WORDS, 3, mask_zero=mask), layer(), layers.Dense(WORDS)]
    return tf.keras.Sequential([layers.Input([TIME]), *parts])

  y = tf.TensorSpec(build().output_shape[:1] + build().output_shape[1:-1], tf.int32)
  model = tfm.from_keras(
    build,
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    batch_spec=(tf.TensorSpec([None, TIME], tf.int32), y),
  )

  @hot_functions.hot_function
  def gradient(w, x, y):
    return model.value_and_grad(w, (x, y), tf.constant([1, 2]))[1]

  weights_type = tff.to_type([(w.dtype.type, w.shape) for w in model.initial_weights])
  element = (np.int32, [None, TIME]), (np.int32, [None, *y.shape[1:]])

  @tff.tensorflow.computation(weights_type, tff.SequenceType(tff.to_type(element)))
  def train(w, data):
    def step(w, batch_):
      x, y = (tf.ensure_shape(t, [batch, *t.shape[1:]]) for t in batch_)
      grads = gradient(w, x, y, tfm_full_batch=tf.constant(True))
      return tuple(v - 0.5 * g for v, g in zip(w, grads, strict=True))

    return data.reduce(tuple(w), step)

  rng = np.random.default_rng(0)
  arrays = [rng.integers(0, WORDS, [3 * BATCH, *s], np.int32) for s in ([TIME], y.shape[1:])]
  data = tf.data.Dataset.from_tensor_slices(tuple(arrays)).batch(BATCH)
  return train, list(model.initial_weights), data


def _bodies(computation) -> list[list]:
  """Returns the nodes in the bodies of the compiled gradient's loops."""
  proto = tff.framework.ConcreteComputation.get_proto(computation)
  with using(RewriteOptions(compile="auto")):
    library = {
      f.signature.name: f for f in prepared_graphs.prepare(proto).graph_def.library.function
    }
  compiled = list(filter(xla_calls.is_compiled, library.values()))
  loops = [node for f in compiled for node in f.node_def if node.op in function_defs.LOOPS]
  bodies = [function_defs.Function(library[node.attr["body"].func.name]) for node in loops]
  for body in bodies:
    body.prune()
  return [list(body.definition.node_def) for body in bodies]


@pytest.mark.parametrize("mask", [False, True])
@pytest.mark.parametrize("name", LAYERS)
def test_rewritten_loops_give_the_same_weights(name, mask):
  train, weights, data = _training(LAYERS[name], mask)
  results = []
  for mode in ("off", "auto"):
    context = runtime.create_inprocess_context("cpu", compile=mode)
    with tff.framework.get_context_stack().install(context):
      results.append(train(weights, data))
  for plain, compiled, start in zip(*results, weights, strict=True):
    np.testing.assert_allclose(plain, compiled, rtol=1e-5, atol=1e-6)
    assert np.abs(plain - start).max() > 1e-4


@pytest.mark.parametrize(("name", "backwards"), [("gru", 3), ("lstm", 1), ("simple", 1)])
def test_one_product_is_left_in_a_loop(name, backwards):
  """h_t U forwards and d_t Uᵀ backwards (in three parts for a GRU), which depend on the previous step."""
  train, _, _ = _training(LAYERS[name], mask=False)
  products = [[node for node in body if node.op == "MatMul"] for body in _bodies(train)]
  assert [len(found) for found in products] == [1, backwards]
  assert not any(node.attr["transpose_b"].b for found in products for node in found)


def test_a_gated_unit_neither_concatenates_nor_sums_gradients_in_its_loop():
  train, _, _ = _training(LAYERS["gru"], mask=False)
  operations = {node.op for body in _bodies(train) for node in body}
  assert not operations & {"ConcatV2", "BiasAddGrad"}
