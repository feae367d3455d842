"""XLA's gradients of max pooling are bit-identical to TensorFlow's."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

import tff_momentum as tfm
from tff_momentum import runtime
from tff_momentum.processes.process import ClientInput
from tff_momentum.runtime.rewrite import max_pool_gradients

layers = tf.keras.layers


@pytest.mark.parametrize("jit", [False, True])
@pytest.mark.parametrize(("k", "height", "width"), [(2, 6, 6), (2, 7, 5), (3, 8, 10)])
def test_views_equal_the_kernel(k, height, width, jit):
  """The inputs have ties: many are zero, as after a ReLU."""
  rng = np.random.default_rng(k)
  x = tf.nn.relu(tf.constant(rng.normal(size=[4, height, width, 3]), tf.float32))
  settings = dict(ksize=[1, k, k, 1], strides=[1, k, k, 1], padding="VALID")
  y = tf.raw_ops.MaxPool(input=x, **settings)
  g = tf.constant(rng.normal(size=y.shape), tf.float32)
  expected = tf.raw_ops.MaxPoolGrad(orig_input=x, orig_output=y, grad=g, **settings)
  views = tf.function(lambda *inputs: max_pool_gradients._views(k, *inputs)[0], jit_compile=jit)
  np.testing.assert_array_equal(views(x, y, g), expected)


@pytest.mark.parametrize(
  ("changes", "expected"),
  [({}, 2), ({"strides": [1, 1, 1, 1]}, None), ({"padding": "SAME"}, None)],
)
def test_windows_must_not_overlap(changes, expected):
  settings = dict(ksize=[1, 2, 2, 1], strides=[1, 2, 2, 1], padding="VALID") | changes
  with tf.Graph().as_default() as graph:
    x = tf.zeros([1, 4, 4, 1])
    y = tf.raw_ops.MaxPool(input=x, **settings)
    tf.raw_ops.MaxPoolGrad(orig_input=x, orig_output=y, grad=y, **settings)
  nodes = graph.as_graph_def().node
  assert [max_pool_gradients.window(node) for node in nodes if node.op == "MaxPoolGrad"] == [
    expected
  ]
  assert all(max_pool_gradients.window(node) is None for node in nodes if node.op != "MaxPoolGrad")


def test_a_round_has_the_same_bits_with_and_without():
  """Two clients: one has only full-sized batches, the other a smaller last one."""
  max_pool_gradients.functions.cache_clear()
  rng = np.random.default_rng(0)

  def data(examples):
    x = rng.normal(size=[examples, 9, 9, 1]).astype(np.float32)
    y = rng.integers(0, 3, examples, np.int32)
    return tf.data.Dataset.from_tensor_slices(collections.OrderedDict(x=x, y=y)).batch(4)

  def build():
    parts = [layers.Conv2D(2, 2, activation="relu"), layers.MaxPool2D(), layers.Flatten()]
    return tf.keras.Sequential([layers.Input([9, 9, 1]), *parts, layers.Dense(3)])

  datasets = [data(8), data(10)]
  model = tfm.from_keras(
    build,
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    batch_spec=datasets[0].element_spec,
  )
  process = tfm.build_process(tfm.algorithms.fedavg(client_learning_rate=0.1), model)
  weights = []
  for mode in ("off", "auto"):
    context = runtime.create_inprocess_context("cpu", compile=mode)
    with tff.framework.get_context_stack().install(context):
      seeds = [np.array([0, i], np.int32) for i in range(2)]
      clients = [
        ClientInput(seed, process.initial_client_state(seed), d)
        for seed, d in zip(seeds, datasets, strict=True)
      ]
      weights.append(process.weights(process.next(process.initialize(), clients).state))
  for plain, compiled in zip(*weights, strict=True):
    np.testing.assert_array_equal(plain, compiled)
  assert max_pool_gradients.functions.cache_info().currsize == 1  # the pass replaced a gradient
