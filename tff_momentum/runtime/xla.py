"""Chooses which gradient functions XLA compiles.

A function whose name starts with `tfm_gradient` is the hot part of a client. XLA speeds up recurrent
models, whose time goes into many small operations inside loops, and slows convolutions on CPUs. The
choice depends on the function's operations and shapes alone, so that the same program always gives the
same bits; and only functions with fully known shapes are compiled, since XLA compiles anew for every
shape that it meets.
"""

from collections.abc import Iterator
from typing import Literal

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, function_pb2

Compile = Literal["auto", "on", "off"]
_MARK = "_XlaMustCompile"
_LOOPS = ("While", "StatelessWhile")
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
  chosen = {
    name
    for name, function in library.items()
    if "tfm_gradient" in name
    and _has_known_shapes(function)
    and (mode == "on" or _is_recurrent(function, library))
  }
  bodies = (function.node_def for function in graph_def.library.function)
  for nodes in (graph_def.node, *bodies):
    for node in nodes:
      if node.op.endswith("PartitionedCall") and node.attr["f"].func.name in chosen:
        node.attr[_MARK].CopyFrom(attr_value_pb2.AttrValue(b=True))
  for name in chosen:
    library[name].attr[_MARK].CopyFrom(attr_value_pb2.AttrValue(b=True))


def _has_known_shapes(function: function_pb2.FunctionDef) -> bool:
  for i in range(len(function.signature.input_arg)):
    shapes = (
      function.arg_attr[i].attr["_output_shapes"].list.shape if i in function.arg_attr else ()
    )
    if not shapes or not tf.TensorShape(shapes[0]).is_fully_defined():
      return False
  return True


def _is_recurrent(function: function_pb2.FunctionDef, library: dict) -> bool:
  operations = set(_operations(function, library, set()))
  return bool(operations.intersection(_LOOPS)) and not operations.intersection(_SLOW_WITH_XLA)


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
