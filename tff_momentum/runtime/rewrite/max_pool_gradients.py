"""The gradient of max pooling, as a few elementwise operations that XLA compiles.

TensorFlow's own kernel looks for each window's maximum again, one number at a time; on a CPU it takes a
fifth of a small convolutional model's step. Windows that do not overlap are k² views of the input. The
first view that has the maximum takes the gradient, as in TensorFlow, so the bits are the same.
"""

import functools

import tensorflow as tf
from tensorflow.core.framework import function_pb2, node_def_pb2

from tff_momentum.runtime.rewrite import array_datasets


def window(node: node_def_pb2.NodeDef) -> int | None:
  """The size of the windows of a `MaxPoolGrad` that can be replaced; None for other nodes."""
  if node.op != "MaxPoolGrad":
    return None
  size, strides = node.attr["ksize"].list.i, node.attr["strides"].list.i
  plain = node.attr["data_format"].s in (b"", b"NHWC") and node.attr["padding"].s == b"VALID"
  one, k, _, _ = size
  return k if plain and list(size) == list(strides) == [one, k, k, one] and one == 1 else None


@functools.cache
def functions(k: int, dtype: tf.DType) -> list[function_pb2.FunctionDef]:
  """Two functions of (input, output, gradient): one to be compiled, and TensorFlow's own kernel."""
  specs = [tf.TensorSpec([None] * 4, dtype)] * 3
  settings = dict(ksize=[1, k, k, 1], strides=[1, k, k, 1], padding="VALID")

  def kernel(x, y, g):
    return [tf.raw_ops.MaxPoolGrad(orig_input=x, orig_output=y, grad=g, **settings)]

  suffix = f"{k}_{dtype.name}"
  views = array_datasets.define(f"tfm_pool_views_{suffix}", functools.partial(_views, k), specs)[0]
  made = [views, array_datasets.define(f"tfm_pool_kernel_{suffix}", kernel, specs)[0]]
  for definition in made:
    for node in definition.node_def:
      node.device = ""  # that of the client
  views.attr["_XlaMustCompile"].b = True
  return made


def _views(k: int, x: tf.Tensor, y: tf.Tensor, g: tf.Tensor) -> list[tf.Tensor]:
  batch, rows, columns, channels = tf.unstack(tf.shape(y))
  free, zero = tf.ones_like(y, tf.bool), tf.zeros_like(g)
  parts = []
  for i in range(k):
    across = []
    for j in range(k):
      first = free & (x[:, i : k * rows : k, j : k * columns : k] >= y)
      across.append(tf.where(first, g, zero))
      free = free & ~first
    parts.append(tf.stack(across, axis=3))
  whole = tf.reshape(tf.stack(parts, axis=2), [batch, k * rows, k * columns, channels])
  rest = tf.shape(x) - tf.shape(whole)  # rows and columns that no window covers
  return [tf.pad(whole, tf.stack([tf.zeros_like(rest), rest], axis=1))]
