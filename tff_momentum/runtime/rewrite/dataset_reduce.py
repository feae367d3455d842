"""Rewrites `Dataset.reduce` as a while loop inside the graph.

TensorFlow's reduce kernel instantiates (and optimises) its function anew on every call, which costs
more than a small client's whole training, and keeps its body on the CPU. A `While` op is part of
the caller's graph: it is optimised once, and its body runs on the caller's device.

The loop reads its elements from an iterator, or, where the data sets are known to be slices of arrays in
memory, from a list of them (see `lists`).
"""

import dataclasses
from collections.abc import Iterable

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, function_pb2, node_def_pb2, op_def_pb2

from tff_momentum.runtime.rewrite import array_datasets

_BOOL, _INT64 = tf.bool.as_datatype_enum, tf.int64.as_datatype_enum
_VARIANT, _RESOURCE = tf.variant.as_datatype_enum, tf.resource.as_datatype_enum


class NeedsIterators(Exception):
  """A computation does more to its data sets than a list of batches can stand for."""


@dataclasses.dataclass
class _Source:
  """How a loop gets its elements: loop variables beside the state, and code in three places."""

  before: list[node_def_pb2.NodeDef]
  types: list[int]
  inputs: list[str]
  condition: tuple[list[node_def_pb2.NodeDef], str]
  body: list[node_def_pb2.NodeDef]
  element: str  # the output of the body's node `element` that has the components
  next_values: list[str]


def rewrite_reduces(graph_def: tf.compat.v1.GraphDef, as_lists: bool) -> None:
  """Replaces every `ReduceDataset` node of a graph and its function library, in place.

  Args:
    graph_def: The graph.
    as_lists: Whether the data sets fed to the graph are lists of batches. Then the other data set ops
      are replaced too, and `NeedsIterators` is raised if there is one that cannot be.
  """
  library = {function.signature.name: function for function in graph_def.library.function}
  added: dict[str, function_pb2.FunctionDef] = {}
  _rewrite_nodes(graph_def.node, library, "", added, False, as_lists)
  for name, function in library.items():
    replaced = _rewrite_nodes(function.node_def, library, name + "_", added, True, as_lists)
    for key, source in function.ret.items():
      function.ret[key] = _rename_output(source, replaced)
  graph_def.library.function.extend(added.values())


def _rewrite_nodes(
  nodes,
  library: dict,
  prefix: str,
  added: dict[str, function_pb2.FunctionDef],
  in_function: bool,
  as_lists: bool,
) -> set[str]:
  """Rewrites the nodes of a graph or function body; returns the names of those whose outputs changed."""
  replaced = set()
  for node in list(nodes):
    if node.op == "ReduceDataset":
      step = library[node.attr["f"].func.name]
      nodes.extend(_replace(node, step, prefix, added, in_function, as_lists))
      replaced.add(node.name)
    elif as_lists and node.op in array_datasets.STAND_INS:
      dtypes = tuple(map(tf.as_dtype, node.attr["output_types"].list.type))
      _add_call(node, array_datasets.stand_in(node.op, dtypes), added)
      replaced.add(node.name)
    elif as_lists and ("Dataset" in node.op or "Iterator" in node.op):
      raise NeedsIterators(node.op)
  if in_function and replaced:
    for node in nodes:
      for i, source in enumerate(node.input):
        node.input[i] = _rename_output(source, replaced)
  return replaced


def _add_call(
  node: node_def_pb2.NodeDef,
  called: array_datasets.Functions,
  added: dict[str, function_pb2.FunctionDef],
) -> None:
  """Turns `node` into a call of the first function on the same inputs."""
  added.update((function.signature.name, function) for function in called)
  node.CopyFrom(_call(node.name, called[0].signature, node.input))


def _call(name: str, signature: op_def_pb2.OpDef, inputs: Iterable[str]) -> node_def_pb2.NodeDef:
  attributes = {
    "Tin": _types([argument.type for argument in signature.input_arg]),
    "Tout": _types([argument.type for argument in signature.output_arg]),
    "f": _function(signature.name),
  }
  return _node("PartitionedCall", name, inputs, attributes)


def _rename_output(source: str, replaced: set[str]) -> str:
  """In a function body outputs are named after the op's signature, which differs for loops and calls."""
  node, _, rest = source.partition(":")
  return f"{node}:output:{rest.split(':')[1]}" if node in replaced and rest else source


def _replace(
  reduce: node_def_pb2.NodeDef,
  step: function_pb2.FunctionDef,
  prefix: str,
  added: dict[str, function_pb2.FunctionDef],
  in_function: bool,
  as_lists: bool,
) -> list[node_def_pb2.NodeDef]:
  """Turns `reduce` into a `While` node; returns the nodes to add before it."""
  state_types = list(reduce.attr["Tstate"].list.type)
  captured_types = list(reduce.attr["Targuments"].list.type)
  arguments = range(len(state_types), len(step.signature.input_arg) - len(captured_types))
  elements = {
    "output_types": _types([step.signature.input_arg[i].type for i in arguments]),
    "output_shapes": _shapes([_argument_shape(step, i) for i in arguments]),
  }
  data = [name for name in reduce.input if not name.startswith("^")]
  control = [name for name in reduce.input if name.startswith("^")]
  state, captured = data[1 : 1 + len(state_types)], data[1 + len(state_types) :]
  if as_lists:
    source = _listed(reduce.name, data[0], control, elements, len(state_types), in_function, added)
  else:
    source = _iterated(reduce.name, data[0], control, elements, len(state_types), in_function)

  name = (prefix + reduce.name).replace("/", "_") + "_" + step.signature.name
  loop_types = [*state_types, *source.types, *captured_types]
  for made in (
    _condition(name + "_condition", loop_types, source),
    _body(name + "_body", step, loop_types, len(state_types), len(arguments), source),
  ):
    added[made.signature.name] = made
  unknown = tf.TensorShape(None).as_proto()
  others = [unknown] * (len(source.types) + len(captured_types))
  loop = _node(
    "While",
    reduce.name,
    [*state, *source.inputs, *captured, *control],
    {
      "T": _types(loop_types),
      "cond": _function(name + "_condition"),
      "body": _function(name + "_body"),
      "output_shapes": _shapes([*reduce.attr["output_shapes"].list.shape, *others]),
      # One step at a time: a step may update variables that the next one reads.
      "parallel_iterations": attr_value_pb2.AttrValue(i=1),
      "_lower_using_switch_merge": attr_value_pb2.AttrValue(b=True),
    },
  )
  reduce.CopyFrom(loop)
  return source.before


def _iterated(
  name: str, dataset: str, control: list[str], elements: dict, first: int, in_function: bool
) -> _Source:
  """Reads the next element, wrapped as an optional, while the body works on this one."""
  iterator, make, head = f"{name}/iterator", f"{name}/make", f"{name}/first"
  handle = _output(iterator, "handle", in_function)
  optional, loop_handle = f"v{first}", f"v{first + 1}"
  return _Source(
    before=[
      _node("AnonymousIteratorV3", iterator, control, elements),
      _node("MakeIterator", make, [dataset, handle], {}),
      _node("IteratorGetNextAsOptional", head, [handle, f"^{make}"], elements),
    ],
    types=[_VARIANT, _RESOURCE],
    inputs=[_output(head, "optional", in_function), handle],
    condition=([_node("OptionalHasValue", "test", [optional], {})], "test:has_value:0"),
    body=[
      _node("OptionalGetValue", "element", [optional], elements),
      _node("IteratorGetNextAsOptional", "next", [loop_handle], elements),
    ],
    element="components",
    next_values=["next:optional:0", loop_handle],
  )


def _listed(
  name: str,
  dataset: str,
  control: list[str],
  elements: dict,
  first: int,
  in_function: bool,
  added: dict[str, function_pb2.FunctionDef],
) -> _Source:
  """Counts up to the number of batches and takes each from the lists of the components."""
  types, shapes = elements["output_types"].list.type, elements["output_shapes"].list.shape
  opener = array_datasets.opener(len(types))
  getter = array_datasets.getter(
    tuple(tf.TensorSpec(s, tf.as_dtype(t)) for t, s in zip(types, shapes, strict=True))
  )
  added.update((function.signature.name, function) for function in (*opener, *getter))
  zero, opened = f"{name}/zero", f"{name}/opened"
  position, count = f"v{first}", f"v{first + 1}"
  parts = [f"v{first + 2 + i}" for i in range(len(types))]
  outputs = [
    f"{opened}:output:{i}" if in_function else f"{opened}:{i}" for i in range(1 + len(types))
  ]
  of_int64 = {"T": attr_value_pb2.AttrValue(type=_INT64)}
  return _Source(
    before=[_constant(zero, 0), _call(opened, opener[0].signature, [dataset, *control])],
    types=[_INT64, _INT64, *[_VARIANT] * len(types)],
    inputs=[_output(zero, "output", in_function), *outputs],
    condition=([_node("Less", "test", [position, count], of_int64)], "test:z:0"),
    body=[_call("element", getter[0].signature, [position, *parts])],
    element="output",
    next_values=[f"element:output:{len(types)}", count, *parts],
  )


def _condition(name: str, loop_types: list[int], source: _Source) -> function_pb2.FunctionDef:
  function = function_pb2.FunctionDef(signature=_signature(name, loop_types))
  function.signature.output_arg.add(name="go_on", type=_BOOL)
  nodes, result = source.condition
  function.node_def.extend(nodes)
  function.ret["go_on"] = result
  return function


def _body(
  name: str,
  step: function_pb2.FunctionDef,
  loop_types: list[int],
  num_states: int,
  num_elements: int,
  source: _Source,
) -> function_pb2.FunctionDef:
  function = function_pb2.FunctionDef(signature=_signature(name, loop_types))
  variables = [f"v{i}" for i in range(len(loop_types))]
  captured = variables[num_states + len(source.types) :]
  arguments = [
    *variables[:num_states],
    *(f"element:{source.element}:{i}" for i in range(num_elements)),
    *captured,
  ]
  call = {
    "Tin": _types([argument.type for argument in step.signature.input_arg]),
    "Tout": _types(loop_types[:num_states]),
    "f": _function(step.signature.name),
  }
  function.node_def.extend(source.body)
  function.node_def.append(_node("StatefulPartitionedCall", "step", arguments, call))
  results = [*(f"step:output:{i}" for i in range(num_states)), *source.next_values, *captured]
  for i, (loop_type, result) in enumerate(zip(loop_types, results, strict=True)):
    function.signature.output_arg.add(name=f"r{i}", type=loop_type)
    function.ret[f"r{i}"] = result
  function.signature.control_output.append("step")
  function.control_ret["step"] = "step"
  function.signature.is_stateful = True
  return function


def _signature(name: str, loop_types: list[int]) -> op_def_pb2.OpDef:
  signature = op_def_pb2.OpDef(name=name)
  for i, loop_type in enumerate(loop_types):
    signature.input_arg.add(name=f"v{i}", type=loop_type)
  return signature


def _argument_shape(function: function_pb2.FunctionDef, index: int):
  shapes = function.arg_attr[index].attr["_output_shapes"].list.shape
  return shapes[0] if shapes else tf.TensorShape(None).as_proto()


def _output(node: str, argument: str, in_function: bool) -> str:
  return f"{node}:{argument}:0" if in_function else f"{node}:0"


def _constant(name: str, value: int) -> node_def_pb2.NodeDef:
  tensor = tf.make_tensor_proto(value, tf.int64)
  attributes = {
    "dtype": attr_value_pb2.AttrValue(type=_INT64),
    "value": attr_value_pb2.AttrValue(tensor=tensor),
  }
  return _node("Const", name, [], attributes)


def _node(op: str, name: str, inputs: Iterable[str], attributes: dict) -> node_def_pb2.NodeDef:
  node = node_def_pb2.NodeDef(op=op, name=name, input=inputs)
  for key, value in attributes.items():
    node.attr[key].CopyFrom(value)
  return node


def _types(types: list[int]) -> attr_value_pb2.AttrValue:
  return attr_value_pb2.AttrValue(list=attr_value_pb2.AttrValue.ListValue(type=types))


def _shapes(shapes: list) -> attr_value_pb2.AttrValue:
  return attr_value_pb2.AttrValue(list=attr_value_pb2.AttrValue.ListValue(shape=shapes))


def _function(name: str) -> attr_value_pb2.AttrValue:
  return attr_value_pb2.AttrValue(func=attr_value_pb2.NameAttrList(name=name))
