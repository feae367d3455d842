"""Chooses which gradient functions XLA compiles.

A function whose name starts with `tfm_gradient` is the hot part of a client. XLA speeds up recurrent
models, whose time goes into many small operations inside loops, and slows convolutions on CPUs. The
choice depends on the function's operations and shapes alone, so that the same program always gives the
same bits.

XLA compiles anew for every shape that it meets. So a function is compiled if its shapes are fully known; or
if nothing but the size of the batch is unknown and the function has a boolean argument `full_batch`: a call
then branches, to compiled code where that is true, and to the function as it is for the ragged rest of the
data. Of other functions the same goes for the gradients of max pooling alone.

Where XLA draws random numbers they are others than TensorFlow's, so functions that draw some are left alone.
"""

from collections.abc import Iterator, Sequence
from typing import Any, Literal

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, function_pb2, node_def_pb2

from tff_momentum.hot_functions import full_batch_argument
from tff_momentum.runtime.rewrite import max_pool_gradients, recurrent_loops

Compile = Literal["auto", "on", "off"]
_MARK = "_XlaMustCompile"
_LOOPS = ("While", "StatelessWhile")
_RANDOM = (
  "StatelessRandom",
  "StatelessTruncated",
  "StatelessParameterized",
  "StatelessMultinomial",
)
_SAME_WITH_XLA = ("StatelessRandomGet", "StatelessRandomUniformFullInt")
_SLOW_WITH_XLA = ("Conv2D", "Conv2DBackpropInput", "Conv2DBackpropFilter", "Conv3D", "MaxPool")


def check_mode(mode: str) -> None:
  """Raises unless `mode` is one of the three ways to choose."""
  if mode not in ("auto", "on", "off"):
    raise ValueError(f'Expected compile to be "auto", "on" or "off", found {mode!r}.')


def mark_gradients(graph_def: tf.compat.v1.GraphDef, mode: Compile) -> None:
  """Marks the calls of gradient functions that XLA shall compile, in place."""
  if mode == "off":
    return
  library = {function.signature.name: function for function in graph_def.library.function}
  functions = list(library.values())
  for function in functions:
    if full_batch_argument(function) is None or not _has_bounded_loops(function):
      continue
    if mode == "on" or _is_recurrent(function, library):
      if _has_known_shapes(function):
        _compile_calls(graph_def, function)
      elif _has_known_shapes_but_batch(function):
        _branch_calls(graph_def, function)
    else:
      _branch_pools(graph_def, function)


def _compile_calls(graph_def: tf.compat.v1.GraphDef, function: function_pb2.FunctionDef) -> None:
  _prepare(graph_def, function)
  for node in _calls(graph_def, function.signature.name):
    _mark(node)


def _branch_calls(graph_def: tf.compat.v1.GraphDef, function: function_pb2.FunctionDef) -> None:
  """Turns the calls of `function` into branches by its argument `full_batch`."""
  plain = function.signature.name
  compiled = graph_def.library.function.add()
  compiled.CopyFrom(function)
  compiled.signature.name = plain + "_compiled"
  _prepare(graph_def, compiled)
  calls = list(_calls(graph_def, plain))
  branches = []
  for callee in (compiled, function):
    branch = graph_def.library.function.add()
    branch.CopyFrom(_caller(callee, callee is compiled))
    branches.append(branch.signature.name)
  place = full_batch_argument(function) or 0
  for node in calls:
    op = "StatelessIf" if node.op == "PartitionedCall" else "If"
    arguments = [name for name in node.input if not name.startswith("^")]
    types_in, types_out = node.attr["Tin"].list.type, node.attr["Tout"].list.type
    _branch(node, op, arguments[place], branches, types_in, types_out)


def _branch(
  node: node_def_pb2.NodeDef,
  op: str,
  condition: str,
  branches: list[str],
  types_in: Sequence[int],
  types_out: Sequence[int],
) -> None:
  """Turns a node into the choice of one of two functions for its inputs."""
  made = node_def_pb2.NodeDef(op=op, name=node.name, input=[condition, *node.input])
  made.attr["Tcond"].type = tf.bool.as_datatype_enum
  made.attr["Tin"].list.type.extend(types_in)
  made.attr["Tout"].list.type.extend(types_out)
  made.attr["then_branch"].func.name, made.attr["else_branch"].func.name = branches
  made.attr["output_shapes"].list.shape.extend(node.attr["_output_shapes"].list.shape)
  made.attr["_lower_using_switch_merge"].b = True
  node.CopyFrom(made)


def _branch_pools(graph_def: tf.compat.v1.GraphDef, function: function_pb2.FunctionDef) -> None:
  """Lets XLA compute the gradients of max pooling of full batches (see `pooling`)."""
  place = full_batch_argument(function)
  if place is None:
    return
  for node in function.node_def:
    size = max_pool_gradients.window(node)
    if size is None:
      continue
    dtype = node.attr["T"].type
    views, kernel = max_pool_gradients.functions(size, tf.as_dtype(dtype))
    called = _caller(views, True)
    known = {other.signature.name for other in graph_def.library.function}
    added = [other for other in (views, kernel, called) if other.signature.name not in known]
    graph_def.library.function.extend(added)
    branches = [called.signature.name, kernel.signature.name]
    condition = function.signature.input_arg[place].name
    _branch(node, "StatelessIf", condition, branches, [dtype] * 3, [dtype])


def _prepare(graph_def: tf.compat.v1.GraphDef, function: function_pb2.FunctionDef) -> None:
  """Makes a function one that XLA compiles, and compiles well."""
  _drop_placeholders(function)
  library = {other.signature.name: other for other in graph_def.library.function}
  graph_def.library.function.extend(recurrent_loops.shorten_loops(function, library))
  _mark(function)


def _caller(function: function_pb2.FunctionDef, compiled: bool) -> function_pb2.FunctionDef:
  """A function that does nothing but call another one."""
  signature = function.signature
  caller = function_pb2.FunctionDef()
  caller.signature.CopyFrom(signature)
  caller.signature.name = signature.name + "_call"
  del caller.signature.control_output[:]
  for place, attributes in function.arg_attr.items():
    caller.arg_attr[place].CopyFrom(attributes)
  call = caller.node_def.add(op="StatefulPartitionedCall", name="call")
  call.input.extend(argument.name for argument in signature.input_arg)
  call.attr["Tin"].list.type.extend(argument.type for argument in signature.input_arg)
  call.attr["Tout"].list.type.extend(argument.type for argument in signature.output_arg)
  call.attr["f"].func.name = signature.name
  if compiled:
    _mark(call)
  for i, argument in enumerate(signature.output_arg):
    caller.ret[argument.name] = f"call:output:{i}"
  return caller


def _drop_placeholders(function: function_pb2.FunctionDef) -> None:
  """Takes out what importing a graph leaves behind: placeholders that nothing reads, unknown to XLA."""
  kept = [node for node in function.node_def if node.op != "Placeholder"]
  del function.node_def[:]
  function.node_def.extend(kept)


def _mark(target: Any) -> None:
  target.attr[_MARK].CopyFrom(attr_value_pb2.AttrValue(b=True))


def _calls(graph_def: tf.compat.v1.GraphDef, name: str) -> Iterator[node_def_pb2.NodeDef]:
  bodies = (function.node_def for function in graph_def.library.function)
  for nodes in (graph_def.node, *bodies):
    for node in nodes:
      if node.op.endswith("PartitionedCall") and node.attr["f"].func.name == name:
        yield node


def _has_known_shapes(function: function_pb2.FunctionDef) -> bool:
  return all(shape.is_fully_defined() for shape in _argument_shapes(function))


def _has_known_shapes_but_batch(function: function_pb2.FunctionDef) -> bool:
  return full_batch_argument(function) is not None and all(
    shape.rank is not None and shape[1:].is_fully_defined() for shape in _argument_shapes(function)
  )


def _argument_shapes(function: function_pb2.FunctionDef) -> Iterator[tf.TensorShape]:
  for i in range(len(function.signature.input_arg)):
    attributes = function.arg_attr[i].attr if i in function.arg_attr else {}
    shapes = attributes["_output_shapes"].list.shape if "_output_shapes" in attributes else ()
    yield tf.TensorShape(shapes[0]) if shapes else tf.TensorShape(None)


def _is_recurrent(function: function_pb2.FunctionDef, library: dict) -> bool:
  operations = set(_operations(function, library, set()))
  draws = any(op.startswith(_RANDOM) and not op.startswith(_SAME_WITH_XLA) for op in operations)
  slow = operations.intersection(_SLOW_WITH_XLA)
  return bool(operations.intersection(_LOOPS)) and not slow and not draws


def _has_bounded_loops(function: function_pb2.FunctionDef) -> bool:
  """Whether the lists that loops fill for their gradients have a length, which XLA needs to know."""
  nodes = {node.name: node for node in function.node_def}
  for node in function.node_def:
    if node.op == "EmptyTensorList":
      length = nodes.get(node.input[1].split(":")[0])
      if length is None or length.op != "Const":
        continue
      if tf.make_ndarray(length.attr["value"].tensor) < 0:
        return False
  return True


def _operations(function: function_pb2.FunctionDef, library: dict, seen: set[str]) -> Iterator[str]:
  """Yields the names of all operations of a function and of what it calls."""
  if function.signature.name in seen:
    return
  seen.add(function.signature.name)
  for node in function.node_def:
    yield node.op
    for attribute in node.attr.values():
      called = [attribute.func] if attribute.HasField("func") else attribute.list.func
      for inner in called:
        if inner.name in library:
          yield from _operations(library[inner.name], library, seen)
