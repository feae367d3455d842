"""Lets XLA compile the gradients of max pooling, as a few elementwise operations.

TensorFlow's own kernel searches each window for its maximum again, one number at a time; on a CPU it takes a
fifth of a small convolutional model's step. Windows that do not overlap are k² strided views of the input.
The first view that holds the maximum receives the gradient, as in TensorFlow, so the bits are the same.
"""

import functools

import tensorflow as tf
from tensorflow.core.framework import function_pb2, node_def_pb2

from tff_momentum.hot_functions import full_batch_argument
from tff_momentum.runtime.rewrite import xla_choice
from tff_momentum.runtime.rewrite.function_defs import trace
from tff_momentum.runtime.rewrite.options import RewriteOptions
from tff_momentum.runtime.rewrite.xla_calls import XLA_ATTRIBUTE, caller_of, replace_by_branch
from tff_momentum.runtime.rewrite.xla_choice import XlaChoice


def compile_gradients(graph_def: tf.compat.v1.GraphDef, options: RewriteOptions) -> None:
  """Compiles max-pooling gradients of full-sized batches where `xla_choice` says so, in place."""
  library = {function.signature.name: function for function in graph_def.library.function}
  for function in list(library.values()):
    if xla_choice.choose(function, library, options) is XlaChoice.MAX_POOL_GRADIENTS:
      _compile_gradients_of(function, graph_def)


def _compile_gradients_of(
  function: function_pb2.FunctionDef, graph_def: tf.compat.v1.GraphDef
) -> None:
  position = full_batch_argument(function)
  assert position is not None
  for node in function.node_def:
    size = window(node)
    if size is None:
      continue
    dtype = node.attr["T"].type
    views, kernel = functions(size, tf.as_dtype(dtype))
    caller = caller_of(views, compiled=True)
    known = {other.signature.name for other in graph_def.library.function}
    added = [other for other in (views, kernel, caller) if other.signature.name not in known]
    graph_def.library.function.extend(added)
    branches = [caller.signature.name, kernel.signature.name]
    condition = function.signature.input_arg[position].name
    replace_by_branch(node, "StatelessIf", condition, branches, [dtype] * 3, [dtype])


def window(node: node_def_pb2.NodeDef) -> int | None:
  """Returns the window size of a `MaxPoolGrad` whose windows do not overlap; None for all other nodes."""
  if node.op != "MaxPoolGrad":
    return None
  size, strides = node.attr["ksize"].list.i, node.attr["strides"].list.i
  plain = node.attr["data_format"].s in (b"", b"NHWC") and node.attr["padding"].s == b"VALID"
  one, k, _, _ = size
  return k if plain and list(size) == list(strides) == [one, k, k, one] and one == 1 else None


@functools.cache
def functions(k: int, dtype: tf.DType) -> list[function_pb2.FunctionDef]:
  """Returns two functions of (input, output, gradient): one for XLA, and TensorFlow's own kernel."""
  specs = [tf.TensorSpec([None] * 4, dtype)] * 3
  settings = dict(ksize=[1, k, k, 1], strides=[1, k, k, 1], padding="VALID")

  def kernel(x, y, g):
    return [tf.raw_ops.MaxPoolGrad(orig_input=x, orig_output=y, grad=g, **settings)]

  suffix = f"{k}_{dtype.name}"
  views = trace(f"tfm_pool_views_{suffix}", functools.partial(_views, k), specs)[0]
  made = [views, trace(f"tfm_pool_kernel_{suffix}", kernel, specs)[0]]
  for definition in made:
    for node in definition.node_def:
      node.device = ""  # runs on the client's device
  views.attr[XLA_ATTRIBUTE].b = True
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
