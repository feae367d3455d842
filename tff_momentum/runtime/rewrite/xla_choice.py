"""The rule that decides what XLA compiles, by kind of device and function; `gpu_decisions.XLA` is its table.

Only hot functions (see `hot_functions`) are candidates. XLA speeds up recurrent models, which spend their
time in many small operations inside loops, and slows down convolutions on CPUs. XLA's random streams differ
from TensorFlow's, so a function that draws random numbers is not compiled. In all other hot functions, XLA
compiles only the gradients of max pooling, on CPUs.

The decision depends only on the kind of device and the function's operations and shapes, so the same program
always gives the same bits on the same kind of device.
"""

import enum
from collections.abc import Iterator, Mapping

import tensorflow as tf
from tensorflow.core.framework import function_pb2

from tff_momentum.hot_functions import full_batch_argument
from tff_momentum.runtime import gpu_decisions
from tff_momentum.runtime.gpu_decisions import FunctionKind, Xla
from tff_momentum.runtime.rewrite.function_defs import LOOPS
from tff_momentum.runtime.rewrite.function_library import called_functions
from tff_momentum.runtime.rewrite.options import RewriteOptions

_RANDOM = (
  "StatelessRandom",
  "StatelessTruncated",
  "StatelessParameterized",
  "StatelessMultinomial",
)
_SAME_WITH_XLA = ("StatelessRandomGet", "StatelessRandomUniformFullInt")
_CONVOLUTIONS = ("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", "Conv3D", "MaxPool")


class XlaChoice(enum.Enum):
  """What XLA compiles of a function."""

  NOTHING = enum.auto()
  MAX_POOL_GRADIENTS = enum.auto()
  FULL_BATCHES = (
    enum.auto()
  )  # calls with a full-sized batch; shapes are unknown but for the batch's
  ALL_CALLS = enum.auto()


def check_mode(mode: str) -> None:
  """Raises `ValueError` unless `mode` is a `CompileMode`."""
  if mode not in ("auto", "on", "off"):
    raise ValueError(f'Expected compile to be "auto", "on" or "off", found {mode!r}.')


def choose(
  function: function_pb2.FunctionDef,
  library: Mapping[str, function_pb2.FunctionDef],
  options: RewriteOptions,
) -> XlaChoice:
  """Returns what XLA compiles of `function`.

  XLA compiles separately for every shape. So it compiles all calls of a function if all shapes are known, and
  the calls with full-sized batches if only the number of examples is unknown.

  Args:
    function: Any function of a graph.
    library: All functions of the graph, by name.
    options: In its mode `compile`, "auto" applies the rule above, "on" compiles every hot function with
      suitable shapes, and "off" compiles nothing.
  """
  mode = options.compile
  if mode == "off" or full_batch_argument(function) is None or not _has_bounded_loops(function):
    return XlaChoice.NOTHING
  if mode == "auto":
    table = gpu_decisions.xla_table(options.device, options.convolutions)
    wanted = table[function_kind(function, library)]
    if wanted is not Xla.EVERYTHING:
      compiles_pools = wanted is Xla.MAX_POOL_GRADIENTS
      return XlaChoice.MAX_POOL_GRADIENTS if compiles_pools else XlaChoice.NOTHING
  shapes = list(_argument_shapes(function))
  if all(shape.is_fully_defined() for shape in shapes):
    return XlaChoice.ALL_CALLS
  if all(shape.rank is not None and shape[1:].is_fully_defined() for shape in shapes):
    return XlaChoice.FULL_BATCHES
  return XlaChoice.NOTHING


def function_kind(
  function: function_pb2.FunctionDef, library: Mapping[str, function_pb2.FunctionDef]
) -> FunctionKind:
  """Returns what a function spends its time in."""
  operations = set(_operations(function, library, set()))
  if any(op.startswith(_RANDOM) and not op.startswith(_SAME_WITH_XLA) for op in operations):
    return FunctionKind.RANDOM
  if any(op.startswith("CudnnRNN") for op in operations):
    return FunctionKind.CUDNN_RNN
  if not operations.isdisjoint(_CONVOLUTIONS):
    return FunctionKind.CONVOLUTIONS
  return FunctionKind.OTHER if operations.isdisjoint(LOOPS) else FunctionKind.RECURRENT


def _has_bounded_loops(function: function_pb2.FunctionDef) -> bool:
  """Whether the lists that loops fill for their gradients have a maximum length, which XLA needs to know."""
  nodes = {node.name: node for node in function.node_def}
  for node in function.node_def:
    if node.op == "EmptyTensorList":
      length = nodes.get(node.input[1].split(":")[0])
      if length is None or length.op != "Const":
        continue
      if tf.make_ndarray(length.attr["value"].tensor) < 0:
        return False
  return True


def _argument_shapes(function: function_pb2.FunctionDef) -> Iterator[tf.TensorShape]:
  for i in range(len(function.signature.input_arg)):
    attributes = function.arg_attr[i].attr if i in function.arg_attr else {}
    shapes = attributes["_output_shapes"].list.shape if "_output_shapes" in attributes else ()
    yield tf.TensorShape(shapes[0]) if shapes else tf.TensorShape(None)


def _operations(
  function: function_pb2.FunctionDef,
  library: Mapping[str, function_pb2.FunctionDef],
  seen: set[str],
) -> Iterator[str]:
  """Yields the names of all operations of a function and of the functions that it calls."""
  if function.signature.name in seen:
    return
  seen.add(function.signature.name)
  yield from (node.op for node in function.node_def)
  for name in called_functions(function.node_def, library):
    yield from _operations(library[name], library, seen)
