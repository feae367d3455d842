"""Rewrites `Dataset.reduce` as a while loop over an iterator, inside the graph.

TensorFlow's reduce kernel instantiates (and optimises) its function anew on every call, which costs
more than a small client's whole training, and keeps its body on the CPU. A `While` op is part of the
caller's graph: it is optimised once, and its body runs on the caller's device. The next batch is read
while the body works on the current one.
"""

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, function_pb2, node_def_pb2, op_def_pb2

_VARIANT, _RESOURCE = tf.variant.as_datatype_enum, tf.resource.as_datatype_enum


def rewrite_reduces(graph_def: tf.compat.v1.GraphDef) -> None:
  """Replaces every `ReduceDataset` node of a graph and its function library, in place."""
  library = {function.signature.name: function for function in graph_def.library.function}
  added: list[function_pb2.FunctionDef] = []
  _rewrite_nodes(graph_def.node, library, "", added, in_function=False)
  for name, function in library.items():
    replaced = _rewrite_nodes(function.node_def, library, name + "_", added, in_function=True)
    for key, source in function.ret.items():
      function.ret[key] = _rename_output(source, replaced)
  graph_def.library.function.extend(added)


def _rewrite_nodes(nodes, library: dict, prefix: str, added: list, in_function: bool) -> set[str]:
  reduces = [node for node in nodes if node.op == "ReduceDataset"]
  replaced = {node.name for node in reduces}
  for node in reduces:
    nodes.extend(_replace(node, library[node.attr["f"].func.name], prefix, added, in_function))
  if in_function and replaced:
    for node in nodes:
      for i, source in enumerate(node.input):
        node.input[i] = _rename_output(source, replaced)
  return replaced


def _rename_output(source: str, replaced: set[str]) -> str:
  """In a function body outputs are named after the op's signature, which differs for a loop."""
  node, _, rest = source.partition(":")
  return f"{node}:output:{rest.split(':')[1]}" if node in replaced and rest else source


def _replace(
  reduce: node_def_pb2.NodeDef,
  step: function_pb2.FunctionDef,
  prefix: str,
  added: list[function_pb2.FunctionDef],
  in_function: bool,
) -> list[node_def_pb2.NodeDef]:
  """Turns `reduce` into a `While` node; returns the nodes to add before it."""
  state_types = list(reduce.attr["Tstate"].list.type)
  captured_types = list(reduce.attr["Targuments"].list.type)
  arguments = range(len(state_types), len(step.signature.input_arg) - len(captured_types))
  element_types = [step.signature.input_arg[i].type for i in arguments]
  elements = {
    "output_types": _types(element_types),
    "output_shapes": _shapes([_argument_shape(step, i) for i in arguments]),
  }
  data = [name for name in reduce.input if not name.startswith("^")]
  control = [name for name in reduce.input if name.startswith("^")]
  dataset, state = data[0], data[1 : 1 + len(state_types)]
  captured = data[1 + len(state_types) :]

  def output(node: str, argument: str) -> str:
    return f"{node}:{argument}:0" if in_function else f"{node}:0"

  iterator, make, first = (f"{reduce.name}/{part}" for part in ("iterator", "make", "first"))
  handle = output(iterator, "handle")
  before = [
    _node("AnonymousIteratorV3", iterator, control, elements),
    _node("MakeIterator", make, [dataset, handle], {}),
    _node("IteratorGetNextAsOptional", first, [handle, f"^{make}"], elements),
  ]

  name = (prefix + reduce.name).replace("/", "_") + "_" + step.signature.name
  loop_types = [*state_types, _VARIANT, _RESOURCE, *captured_types]
  added.append(_condition(name + "_condition", loop_types, len(state_types)))
  added.append(_body(name + "_body", step, loop_types, len(state_types), elements))
  state_shapes = reduce.attr["output_shapes"].list.shape
  scalar = tf.TensorShape([]).as_proto()
  unknown = tf.TensorShape(None).as_proto()
  shapes = [*state_shapes, scalar, scalar, *[unknown] * len(captured_types)]
  loop = _node(
    "While",
    reduce.name,
    [*state, output(first, "optional"), handle, *captured, *control],
    {
      "T": _types(loop_types),
      "cond": _function(name + "_condition"),
      "body": _function(name + "_body"),
      "output_shapes": _shapes(shapes),
      # One step at a time: a step may update variables that the next one reads.
      "parallel_iterations": attr_value_pb2.AttrValue(i=1),
      "_lower_using_switch_merge": attr_value_pb2.AttrValue(b=True),
    },
  )
  reduce.CopyFrom(loop)
  return before


def _condition(name: str, loop_types: list[int], num_states: int) -> function_pb2.FunctionDef:
  function = function_pb2.FunctionDef(signature=_signature(name, loop_types))
  function.signature.output_arg.add(name="go_on", type=tf.bool.as_datatype_enum)
  function.node_def.append(_node("OptionalHasValue", "has_value", [f"v{num_states}"], {}))
  function.ret["go_on"] = "has_value:has_value:0"
  return function


def _body(
  name: str,
  step: function_pb2.FunctionDef,
  loop_types: list[int],
  num_states: int,
  elements: dict[str, attr_value_pb2.AttrValue],
) -> function_pb2.FunctionDef:
  function = function_pb2.FunctionDef(signature=_signature(name, loop_types))
  variables = [f"v{i}" for i in range(len(loop_types))]
  for i, loop_type in enumerate(loop_types):
    function.signature.output_arg.add(name=f"r{i}", type=loop_type)
    function.ret[f"r{i}"] = variables[i]
  optional, handle = variables[num_states], variables[num_states + 1]
  num_elements = len(elements["output_types"].list.type)
  arguments = [
    *variables[:num_states],
    *(f"element:components:{i}" for i in range(num_elements)),
    *variables[num_states + 2 :],
  ]
  function.node_def.extend(
    [
      _node("OptionalGetValue", "element", [optional], elements),
      _node(
        "StatefulPartitionedCall",
        "step",
        arguments,
        {
          "Tin": _types([argument.type for argument in step.signature.input_arg]),
          "Tout": _types(loop_types[:num_states]),
          "f": _function(step.signature.name),
        },
      ),
      _node("IteratorGetNextAsOptional", "next", [handle], elements),
    ]
  )
  for i in range(num_states):
    function.ret[f"r{i}"] = f"step:output:{i}"
  function.ret[f"r{num_states}"] = "next:optional:0"
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


def _node(op: str, name: str, inputs: list[str], attributes: dict) -> node_def_pb2.NodeDef:
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
