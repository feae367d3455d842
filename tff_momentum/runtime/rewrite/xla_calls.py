"""Lets XLA compile the calls of hot functions that `xla_choice` picks.

If only the number of examples is unknown, a call becomes a branch: compiled code for full-sized batches, and
the function as it is for the smaller batch at the end of a client's data.
"""

from collections.abc import Iterator, Sequence

import tensorflow as tf
from tensorflow.core.framework import function_pb2, node_def_pb2

from tff_momentum.hot_functions import full_batch_argument
from tff_momentum.runtime.rewrite import xla_choice
from tff_momentum.runtime.rewrite.options import RewriteOptions
from tff_momentum.runtime.rewrite.xla_choice import XlaChoice

# The attribute by which TensorFlow knows the functions and calls that XLA must compile.
XLA_ATTRIBUTE = "_XlaMustCompile"


def compile_hot_functions(graph_def: tf.compat.v1.GraphDef, options: RewriteOptions) -> None:
  """Marks the calls of hot functions that XLA compiles, in place."""
  library = {function.signature.name: function for function in graph_def.library.function}
  for function in list(library.values()):
    choice = xla_choice.choose(function, library, options)
    if choice is XlaChoice.ALL_CALLS:
      _compile_calls(graph_def, function)
    elif choice is XlaChoice.FULL_BATCHES:
      _compile_full_batches(graph_def, function)


def is_compiled(function: function_pb2.FunctionDef) -> bool:
  """Whether a function is marked for XLA."""
  attribute = function.attr.get(XLA_ATTRIBUTE)  # indexing would add an empty attribute
  return attribute is not None and attribute.b


def replace_by_branch(
  node: node_def_pb2.NodeDef,
  op: str,
  condition: str,
  branches: Sequence[str],
  types_in: Sequence[int],
  types_out: Sequence[int],
) -> None:
  """Turns a node into a call of one of two functions with the same inputs.

  Args:
    node: The node; changed in place.
    op: "If" or "StatelessIf".
    condition: The tensor that picks the first function where it is true.
    branches: The names of the two functions.
    types_in: The data types of the node's inputs.
    types_out: The data types of its outputs.
  """
  made = node_def_pb2.NodeDef(op=op, name=node.name, input=[condition, *node.input])
  made.attr["Tcond"].type = tf.bool.as_datatype_enum
  made.attr["Tin"].list.type.extend(types_in)
  made.attr["Tout"].list.type.extend(types_out)
  made.attr["then_branch"].func.name, made.attr["else_branch"].func.name = branches
  made.attr["output_shapes"].list.shape.extend(node.attr["_output_shapes"].list.shape)
  made.attr["_lower_using_switch_merge"].b = True
  node.CopyFrom(made)


def caller_of(
  function: function_pb2.FunctionDef, *, compiled: bool = False
) -> function_pb2.FunctionDef:
  """Returns a function whose only operation is a call of `function`, which XLA compiles if asked to."""
  signature = function.signature
  caller = function_pb2.FunctionDef()
  caller.signature.CopyFrom(signature)
  caller.signature.name = f"{signature.name}_call"
  del caller.signature.control_output[:]
  for position, attributes in function.arg_attr.items():
    caller.arg_attr[position].CopyFrom(attributes)
  call = caller.node_def.add(op="StatefulPartitionedCall", name="call")
  call.input.extend(argument.name for argument in signature.input_arg)
  call.attr["Tin"].list.type.extend(argument.type for argument in signature.input_arg)
  call.attr["Tout"].list.type.extend(argument.type for argument in signature.output_arg)
  call.attr["f"].func.name = signature.name
  if compiled:
    call.attr[XLA_ATTRIBUTE].b = True
  for i, argument in enumerate(signature.output_arg):
    caller.ret[argument.name] = f"call:output:{i}"
  return caller


def _compile_calls(graph_def: tf.compat.v1.GraphDef, function: function_pb2.FunctionDef) -> None:
  _mark(function)
  for node in _calls(graph_def, function.signature.name):
    node.attr[XLA_ATTRIBUTE].b = True


def _compile_full_batches(
  graph_def: tf.compat.v1.GraphDef, function: function_pb2.FunctionDef
) -> None:
  plain = function.signature.name
  compiled = graph_def.library.function.add()
  compiled.CopyFrom(function)
  compiled.signature.name = f"{plain}_compiled"
  _mark(compiled)
  calls = list(_calls(graph_def, plain))
  callers = [caller_of(compiled, compiled=True), caller_of(function)]
  graph_def.library.function.extend(callers)
  position = full_batch_argument(function)
  assert position is not None
  for node in calls:
    op = "StatelessIf" if node.op == "PartitionedCall" else "If"
    arguments = [name for name in node.input if not name.startswith("^")]
    types_in, types_out = node.attr["Tin"].list.type, node.attr["Tout"].list.type
    branches = [caller.signature.name for caller in callers]
    replace_by_branch(node, op, arguments[position], branches, types_in, types_out)


def _mark(function: function_pb2.FunctionDef) -> None:
  """Marks a function for XLA, without the unused placeholders of imported graphs, which XLA rejects."""
  kept = [node for node in function.node_def if node.op != "Placeholder"]
  del function.node_def[:]
  function.node_def.extend(kept)
  function.attr[XLA_ATTRIBUTE].b = True


def _calls(graph_def: tf.compat.v1.GraphDef, name: str) -> Iterator[node_def_pb2.NodeDef]:
  bodies = (function.node_def for function in graph_def.library.function)
  for nodes in (graph_def.node, *bodies):
    for node in nodes:
      if node.op.endswith("PartitionedCall") and node.attr["f"].func.name == name:
        yield node
