"""XLA compiles recurrent hot functions with known shapes, and no others."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum import hot_functions, runtime
from tff_momentum.runtime.rewrite import prepared_graphs, xla_calls
from tff_momentum.runtime.rewrite.options import RewriteOptions, using

VECTOR = tff.TensorType(np.float32, [3])
DATA = tff.SequenceType(tff.TensorType(np.float32, [None, None]))


def _computation(shape: tuple[int | None, int | None], recurrent: bool):
  @hot_functions.hot_function
  def gradient(w, x):
    if recurrent:
      w = tf.while_loop(
        lambda i, w: i < 5, lambda i, w: (i + 1, tf.tanh(w)), (0, w), maximum_iterations=5
      )[1]
    return tf.reduce_mean(x * w, axis=0)

  @tff.tensorflow.computation(VECTOR, DATA)
  def train(w, data):
    def step(w, x):
      x = tf.ensure_shape(x, shape)
      return w - 0.1 * gradient(w, x, tfm_full_batch=tf.constant(True))

    return data.reduce(w, step)

  return train


def _marked(computation, mode) -> int:
  proto = tff.framework.ConcreteComputation.get_proto(computation)
  with using(RewriteOptions(compile=mode)):
    library = prepared_graphs.prepare(proto).graph_def.library.function
  return sum(map(xla_calls.is_compiled, library))


@pytest.mark.parametrize(
  ("shape", "recurrent", "mode", "expected"),
  [
    ((4, 3), True, "auto", 1),
    ((4, 3), True, "off", 0),
    ((4, 3), False, "auto", 0),
    ((4, 3), False, "on", 1),
    ((None, 3), True, "auto", 1),  # full-sized batches only
    ((None, 3), True, "off", 0),
    ((None, 3), False, "auto", 0),
    ((None, None), True, "auto", 0),
    ((None, None), True, "on", 0),
  ],
)
def test_the_rule(shape, recurrent, mode, expected):
  assert _marked(_computation(shape, recurrent), mode) == expected


def test_compiled_and_plain_gradients_agree():
  computation = _computation((4, 3), recurrent=True)
  data = tf.data.Dataset.from_tensor_slices(np.ones([8, 3], np.float32)).batch(4)
  results = []
  for mode in ("off", "auto"):
    context = runtime.create_inprocess_context("cpu", compile=mode)
    with tff.framework.get_context_stack().install(context):
      results.append(computation(np.arange(3, dtype=np.float32), data))
  np.testing.assert_allclose(results[0], results[1], rtol=1e-6)


def test_an_unknown_mode_is_refused():
  with pytest.raises(ValueError, match="Expected compile to be"):
    runtime.create_inprocess_context("cpu", compile="sometimes")
