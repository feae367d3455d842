"""Looking into and changing the definitions of functions and of the loops in them."""

import dataclasses
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import function_pb2, node_def_pb2

LOOPS = ("While", "StatelessWhile")
_VARIANT = tf.variant.as_datatype_enum


class Function:
  """A function's definition, with ways to look up nodes and to add some."""

  def __init__(self, definition: function_pb2.FunctionDef):
    self.definition = definition
    self.arguments = [argument.name for argument in definition.signature.input_arg]
    self._nodes = {node.name: node for node in definition.node_def}

  def source(self, tensor: str) -> str:
    """Where a tensor comes from, past identities."""
    while (node := self._nodes.get(_node_name(tensor))) is not None and node.op == "Identity":
      tensor = node.input[0]
    return tensor

  def maker(self, tensor: str, *operations: str) -> node_def_pb2.NodeDef | None:
    """The node that a tensor comes from, if it is one of these operations."""
    node = self._nodes.get(_node_name(self.source(tensor)))
    return node if node is not None and node.op in operations else None

  def result(self, place: int) -> str:
    """Where the tensor comes from that is returned in this place."""
    return self.source(self.definition.ret[self.definition.signature.output_arg[place].name])

  def set_result(self, place: int, tensor: str) -> None:
    """Returns another tensor in this place."""
    self.definition.ret[self.definition.signature.output_arg[place].name] = tensor

  def readers(self, tensor: str) -> list[node_def_pb2.NodeDef | None]:
    """The nodes that read a tensor, past identities; None stands for the caller."""
    found: list[node_def_pb2.NodeDef | None] = [
      node
      for node in self.definition.node_def
      if node.op != "Identity"
      for name in node.input
      if not name.startswith("^") and self.source(name) == tensor
    ]
    results = sum(self.source(name) == tensor for name in self.definition.ret.values())
    return found + [None] * results

  def replace(self, old: str, new: str) -> None:
    """Lets all that read one tensor so far read another."""
    for node in self.definition.node_def:
      if node.name != _node_name(new):
        for i, name in enumerate(node.input):
          node.input[i] = new if name == old else name
    for key, name in self.definition.ret.items():
      self.definition.ret[key] = new if name == old else name

  def add(self, op: str, inputs: list[str], output: str, **attributes: Any) -> str:
    """Adds a node and returns the name of its first output."""
    name = f"tfm_{op}_{len(self._nodes)}"
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


@dataclasses.dataclass
class Loop:
  """A loop of a function, with a body and a condition that are its own."""

  outer: Function
  node: node_def_pb2.NodeDef
  body: Function
  condition: Function

  @classmethod
  def copy(cls, outer: Function, node: node_def_pb2.NodeDef, library: dict) -> "Loop":
    """The loop that a node is, made to call copies of its body and condition."""
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
    """The name of an output of the loop."""
    return f"{self.node.name}:output:{place}"

  def place(self, tensor: str) -> int | None:
    """Which loop variable a tensor of the body is."""
    name = self.body.source(tensor)
    return self.body.arguments.index(name) if name in self.body.arguments else None

  def constant_place(self, tensor: str) -> int | None:
    """Which loop variable a tensor of the body is, if no turn of the loop changes it."""
    place = self.place(tensor)
    unchanged = place is not None and self.body.result(place) == self.body.arguments[place]
    return place if unchanged else None

  def add_list(self, initial: str) -> tuple[int, str]:
    """Adds a loop variable that is a list; returns its place, and its name in the body."""
    place = len(self.body.arguments)
    name = f"tfm_list_{place}"
    for function in (self.body, self.condition):
      function.definition.signature.input_arg.add(name=name, type=_VARIANT)
      function.arguments.append(name)
    self.body.definition.signature.output_arg.add(name=f"{name}_next", type=_VARIANT)
    self.body.definition.ret[f"{name}_next"] = name
    self.node.input.insert(place, initial)
    self.node.attr["T"].list.type.append(_VARIANT)
    self.node.attr["output_shapes"].list.shape.add()
    if "_num_original_outputs" in self.node.attr:
      self.node.attr["_num_original_outputs"].i = place + 1
    return place, name


def _node_name(tensor: str) -> str:
  return tensor.split(":")[0]
