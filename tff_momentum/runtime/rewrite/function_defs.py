"""Reads and changes the definitions of functions and of the loops in them."""

import dataclasses
import itertools
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import function_pb2, node_def_pb2

LOOPS = ("While", "StatelessWhile")
# The definition of a function, followed by those of the functions that it calls.
Functions = list[function_pb2.FunctionDef]


def trace(
  name: str, function: Callable[..., list[tf.Tensor]], specs: Sequence[tf.TensorSpec]
) -> Functions:
  """Traces a Python function and returns its definition under `name`, and those of what it calls.

  Raises:
    ValueError: The function uses tensors other than its arguments.
  """
  with tf.init_scope():
    traced = tf.function(function, autograph=False).get_concrete_function(*specs)
  if traced.captured_inputs:
    raise ValueError(
      f"Expected a function of its arguments alone; found {len(traced.captured_inputs)} other tensors."
    )
  definition = function_pb2.FunctionDef()
  definition.CopyFrom(traced.function_def)
  definition.signature.name = name
  return [definition, *traced.graph.as_graph_def().library.function]


class Function:
  """A function's definition, with methods to find, add and replace nodes."""

  def __init__(self, definition: function_pb2.FunctionDef):
    self.definition = definition
    self.arguments = [argument.name for argument in definition.signature.input_arg]
    self._nodes = {node.name: node for node in definition.node_def}
    self._numbers = itertools.count()

  def source(self, tensor: str) -> str:
    """Returns the tensor that `tensor` is a copy of, past identities."""
    while (node := self._nodes.get(_node_name(tensor))) is not None and node.op == "Identity":
      tensor = node.input[0]
    return tensor

  def maker(self, tensor: str, *operations: str) -> node_def_pb2.NodeDef | None:
    """Returns the node that computes a tensor if it is one of these operations; else None."""
    node = self._nodes.get(_node_name(self.source(tensor)))
    return node if node is not None and node.op in operations else None

  def constant(self, tensor: str) -> Any:
    """Returns the value of a constant tensor as a number or list; None for all other tensors."""
    node = self.maker(tensor, "Const")
    return None if node is None else tf.make_ndarray(node.attr["value"].tensor).tolist()

  def result(self, place: int) -> str:
    """Returns the tensor that the function returns at this position, past identities."""
    return self.source(self.definition.ret[self.definition.signature.output_arg[place].name])

  def set_result(self, place: int, tensor: str) -> None:
    """Makes the function return another tensor at this position."""
    self.definition.ret[self.definition.signature.output_arg[place].name] = tensor

  def readers(self, tensor: str) -> list[node_def_pb2.NodeDef | None]:
    """Returns the nodes that read a tensor, past identities; None stands for the caller."""
    found: list[node_def_pb2.NodeDef | None] = [
      node
      for node in self.definition.node_def
      if node.op != "Identity"
      for name in node.input
      if not name.startswith("^") and self.source(name) == tensor
    ]
    results = sum(self.source(name) == tensor for name in self.definition.ret.values())
    return found + [None] * results

  def only_reader(self, tensor: str, operation: str) -> node_def_pb2.NodeDef | None:
    """Returns the only reader of a tensor if it is this operation; else None."""
    readers = self.readers(tensor)
    node = readers[0] if len(readers) == 1 else None
    return node if node is not None and node.op == operation else None

  def prune(self) -> None:
    """Removes the nodes that no result needs."""
    needed: set[str] = set()
    waiting = [*self.definition.ret.values(), *self.definition.control_ret.values()]
    while waiting:
      name = _node_name(waiting.pop().removeprefix("^"))
      if name in self._nodes and name not in needed:
        needed.add(name)
        waiting.extend(self._nodes[name].input)
    kept = [node for node in self.definition.node_def if node.name in needed]
    del self.definition.node_def[:]
    self.definition.node_def.extend(kept)
    self._nodes = {node.name: node for node in self.definition.node_def}

  def replace(self, old: str, new: str) -> None:
    """Makes all readers of the tensor `old` read `new` instead."""
    for node in self.definition.node_def:
      if node.name != _node_name(new):
        for i, name in enumerate(node.input):
          node.input[i] = new if name == old else name
    for key, name in self.definition.ret.items():
      self.definition.ret[key] = new if name == old else name

  def add(self, op: str, inputs: list[str], output: str, **attributes: Any) -> str:
    """Adds a node and returns the name of its first output."""
    name = f"tfm_{op}_{next(self._numbers)}"
    node = self._nodes[name] = self.definition.node_def.add(op=op, name=name, input=inputs)
    for key, value in attributes.items():
      if isinstance(value, tf.DType):
        node.attr[key].type = value.as_datatype_enum
      elif isinstance(value, int):
        node.attr[key].i = value
      elif isinstance(value, str):
        node.attr[key].s = value.encode()
      else:
        node.attr[key].tensor.CopyFrom(value)
    return f"{name}:{output}:0"

  def add_constant(self, value: int | list[int]) -> str:
    """Adds a constant of 32-bit integers and returns the name of its output."""
    return self.add(
      "Const", [], "output", dtype=tf.int32, value=tf.make_tensor_proto(value, tf.int32)
    )


@dataclasses.dataclass
class Loop:
  """A loop in a function, with its own copies of the body and the condition."""

  outer: Function
  node: node_def_pb2.NodeDef
  body: Function
  condition: Function

  @classmethod
  def copy(
    cls,
    outer: Function,
    node: node_def_pb2.NodeDef,
    library: Mapping[str, function_pb2.FunctionDef],
  ) -> "Loop":
    """Makes a loop node call copies of its body and condition; returns the loop."""
    parts = []
    for key in ("body", "cond"):
      called = node.attr[key].func
      part = function_pb2.FunctionDef()
      part.CopyFrom(library[called.name])
      called.name = f"{called.name}_of_{outer.definition.signature.name}"
      part.signature.name = called.name
      parts.append(Function(part))
    return cls(outer, node, *parts)

  def output(self, place: int) -> str:
    """Returns the name of an output of the loop."""
    return f"{self.node.name}:output:{place}"

  def place(self, tensor: str) -> int | None:
    """Returns the position of the loop variable that a tensor of the body is; None if it is none."""
    name = self.body.source(tensor)
    return self.body.arguments.index(name) if name in self.body.arguments else None

  def constant_place(self, tensor: str) -> int | None:
    """Returns the position of the loop variable that a tensor of the body is, if no iteration changes it."""
    place = self.place(tensor)
    unchanged = place is not None and self.body.result(place) == self.body.arguments[place]
    return place if unchanged else None

  def add(self, initial: str, dtype: tf.DType = tf.variant) -> tuple[int, str]:
    """Adds a loop variable, by default a list; returns its position and its name in the body."""
    place, kind = len(self.body.arguments), dtype.as_datatype_enum
    name = f"tfm_variable_{place}"
    for function in (self.body, self.condition):
      function.definition.signature.input_arg.add(name=name, type=kind)
      function.arguments.append(name)
    self.body.definition.signature.output_arg.add(name=f"{name}_next", type=kind)
    self.body.definition.ret[f"{name}_next"] = name
    self.node.input.insert(place, initial)
    self.node.attr["T"].list.type.append(kind)
    self.node.attr["output_shapes"].list.shape.add(unknown_rank=True)
    if "_num_original_outputs" in self.node.attr:
      self.node.attr["_num_original_outputs"].i = place + 1
    return place, name


def _node_name(tensor: str) -> str:
  return tensor.split(":")[0]
