"""Rewrites `Dataset.reduce` as a while loop inside the graph.

TensorFlow's reduce kernel instantiates and optimises its function again on every call, which costs more than
all of a small client's training, and it keeps the function's body on the CPU. A `While` op is part of the
caller's graph: it is optimised once, and its body runs on the caller's device.

The loop reads the elements of a data set from an iterator, and `ClientBatches` by index (see `batch_reader`).
It carries only the values that some result needs (see `reduce_steps`).
"""

import dataclasses
from collections.abc import Mapping, MutableSequence

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, function_pb2, node_def_pb2, op_def_pb2

from tff_momentum.runtime.batch_rule import BatchRule
from tff_momentum.runtime.rewrite import batch_reader, dataset_ops, node_defs
from tff_momentum.runtime.rewrite.function_defs import Functions
from tff_momentum.runtime.rewrite.live_values import LiveValues
from tff_momentum.runtime.rewrite.options import NeedsIterators
from tff_momentum.runtime.rewrite.reduce_steps import (
  Step,
  argument_shape,
  is_small_constant,
  step_in_function,
  whole_step,
)

_BOOL, _INT32 = tf.bool.as_datatype_enum, tf.int32.as_datatype_enum
_VARIANT, _RESOURCE = tf.variant.as_datatype_enum, tf.resource.as_datatype_enum


@dataclasses.dataclass
class _Source:
  """How a loop gets its elements: loop variables beside the state, and nodes in three places.

  Attributes:
    before: The nodes that run before the loop.
    types: The data types of the loop variables.
    inputs: Their initial values.
    condition: The nodes of the loop's condition, and its result.
    body: The nodes of the loop's body; one of them is named `element`.
    element: The output of the node `element` that holds the components of an element.
    next_values: The values of the loop variables after an iteration.
  """

  before: list[node_def_pb2.NodeDef]
  types: list[int]
  inputs: list[str]
  condition: tuple[list[node_def_pb2.NodeDef], str]
  body: list[node_def_pb2.NodeDef]
  element: str
  next_values: list[str]


@dataclasses.dataclass(frozen=True)
class _Batches:
  """How the graph's data are read: the rule of its `ClientBatches`, whether it may repeat them, and where."""

  rule: BatchRule
  repeats: bool
  on_gpu: bool


def rewrite_reduces(
  graph_def: tf.compat.v1.GraphDef, rule: BatchRule | None, on_gpu: bool = False
) -> None:
  """Replaces every `ReduceDataset` node of a graph and its function library, in place.

  Args:
    graph_def: The graph.
    rule: The rule of the `ClientBatches` fed to the graph; None if data sets are fed to it. With a rule, the
      other data set ops are replaced as well.
    on_gpu: Whether clients train on a GPU.

  Raises:
    NeedsIterators: There is a rule, and the graph has a data set op that cannot be replaced.
  """
  library = {function.signature.name: function for function in graph_def.library.function}
  added: dict[str, function_pb2.FunctionDef] = {}
  bodies = [graph_def.node, *(function.node_def for function in library.values())]
  repeats = any(node.op == "RepeatDataset" for body in bodies for node in body)
  batches = None if rule is None else _Batches(rule, repeats, on_gpu)
  live = LiveValues(library)
  steps = {
    (name, node.name): step_in_function(node, function, library, live)
    for name, function in library.items()
    for node in function.node_def
    if node.op == "ReduceDataset"
  }
  _rewrite_nodes(graph_def.node, library, {}, "", added, batches)
  for name, function in library.items():
    own = {node: step for (caller, node), step in steps.items() if caller == name}
    replaced = _rewrite_nodes(function.node_def, library, own, name, added, batches)
    for key, source in function.ret.items():
      function.ret[key] = _rename_output(source, replaced)
  graph_def.library.function.extend(added.values())


def _rewrite_nodes(
  nodes: MutableSequence[node_def_pb2.NodeDef],
  library: Mapping[str, function_pb2.FunctionDef],
  steps: Mapping[str, Step],
  caller: str,
  added: dict[str, function_pb2.FunctionDef],
  batches: _Batches | None,
) -> dict[str, list[int] | None]:
  """Rewrites the nodes of a graph, or of the function `caller`.

  Returns:
    The names of the replaced nodes. For a reduction, the old numbers of the outputs that are left, in order.
  """
  replaced: dict[str, list[int] | None] = {}
  prefix, in_function = (f"{caller}_" if caller else ""), bool(caller)
  if batches:
    _count_by_index(nodes)
  for node in list(nodes):
    if node.op == "ReduceDataset":
      step = steps.get(node.name) or whole_step(node, library)
      nodes.extend(_replace(node, step, prefix, added, in_function, batches))
      replaced[node.name] = step.states
    elif batches and node.op in dataset_ops.REPLACEMENTS:
      _add_call(node, dataset_ops.replacement(node.op, batches.rule), added)
      replaced[node.name] = None
    elif batches and ("Dataset" in node.op or "Iterator" in node.op):
      raise NeedsIterators(node.op)
  if in_function and replaced:
    for node in nodes:
      for i, source in enumerate(node.input):
        node.input[i] = _rename_output(source, replaced)
  return replaced


def _count_by_index(nodes: MutableSequence[node_def_pb2.NodeDef]) -> None:
  """Removes the branches that count a client's batches if their number is unknown: by index it is known."""
  named = {node.name: node for node in nodes}

  def maker(tensor: str) -> node_def_pb2.NodeDef | None:
    return named.get(tensor.split(":")[0])

  for node in nodes:
    if node.op not in ("If", "StatelessIf"):
      continue
    test = maker(node.input[0])
    if test is None or test.op != "GreaterEqual":
      continue
    number, limit = map(maker, test.input[:2])
    if number is not None and number.op == "DatasetCardinality" and _is_zero(limit):
      attributes = {
        "Tin": node.attr["Tin"],
        "Tout": node.attr["Tout"],
        "f": node.attr["then_branch"],
      }
      node.CopyFrom(node_defs.node_def("PartitionedCall", node.name, node.input[1:], attributes))


def _is_zero(node: node_def_pb2.NodeDef | None) -> bool:
  return (
    node is not None and is_small_constant(node) and not tf.make_ndarray(node.attr["value"].tensor)
  )


def _add_call(
  node: node_def_pb2.NodeDef,
  called: Functions,
  added: dict[str, function_pb2.FunctionDef],
) -> None:
  """Turns `node` into a call of the first function with the same inputs."""
  added.update((function.signature.name, function) for function in called)
  node.CopyFrom(node_defs.call(node.name, called[0].signature, node.input))


def _rename_output(source: str, replaced: Mapping[str, list[int] | None]) -> str:
  """Renames an output for a function body, where output names depend on the op."""
  node, _, rest = source.partition(":")
  if node not in replaced or not rest:
    return source
  old, left = int(rest.split(":")[1]), replaced[node]
  return f"{node}:output:{old if left is None else left.index(old)}"


def _replace(
  reduce: node_def_pb2.NodeDef,
  step: Step,
  prefix: str,
  added: dict[str, function_pb2.FunctionDef],
  in_function: bool,
  batches: _Batches | None,
) -> list[node_def_pb2.NodeDef]:
  """Turns `reduce` into a `While` node; returns the nodes to add before it."""
  arguments = step.definition.signature.input_arg
  state_types = [arguments[i].type for i in step.states]
  captured_types = [arguments[i].type for i in step.captured]
  elements = {
    "output_types": node_defs.type_list([arguments[i].type for i in step.elements]),
    "output_shapes": node_defs.shape_list(
      [argument_shape(step.definition, i) for i in step.elements]
    ),
  }
  data = [name for name in reduce.input if not name.startswith("^")]
  control = [name for name in reduce.input if name.startswith("^")]
  state = [data[1 + i] for i in step.states]
  captured = [data[1 + i - len(step.elements)] for i in step.captured]
  if batches:
    source = _by_index(
      reduce.name, data[0], control, elements, len(state_types), in_function, added, batches
    )
  else:
    source = _iterated(reduce.name, data[0], control, elements, len(state_types), in_function)

  if batches and batches.on_gpu:
    for i, dtype in enumerate(captured_types):
      if dtype == _INT32:
        # An argument of small integers is on the CPU; a copy keeps it out of the loop's way.
        copy = f"{reduce.name}/captured_{i}"
        of_type = {"T": attr_value_pb2.AttrValue(type=dtype)}
        source.before.append(node_defs.node_def("Snapshot", copy, [captured[i]], of_type))
        captured[i] = _output(copy, "output", in_function)
  name = (prefix + reduce.name).replace("/", "_") + "_" + step.definition.signature.name
  loop_types = [*state_types, *source.types, *captured_types]
  for made in (
    _condition(name + "_condition", loop_types, source),
    _body(name + "_body", step, loop_types, source),
  ):
    added[made.signature.name] = made
  unknown, shapes = tf.TensorShape(None).as_proto(), reduce.attr["output_shapes"].list.shape
  others = [unknown] * (len(source.types) + len(captured_types))
  loop = node_defs.node_def(
    "While",
    reduce.name,
    [*state, *source.inputs, *captured, *control],
    {
      "T": node_defs.type_list(loop_types),
      "cond": node_defs.function_value(name + "_condition"),
      "body": node_defs.function_value(name + "_body"),
      "output_shapes": node_defs.shape_list([*map(shapes.__getitem__, step.states), *others]),
      # Steps run one after the other, because a step may update variables that the next one reads.
      "parallel_iterations": attr_value_pb2.AttrValue(i=1),
      "_lower_using_switch_merge": attr_value_pb2.AttrValue(b=True),
    },
  )
  reduce.CopyFrom(loop)
  return source.before


def _iterated(
  name: str,
  dataset: str,
  control: list[str],
  elements: Mapping[str, attr_value_pb2.AttrValue],
  first: int,
  in_function: bool,
) -> _Source:
  """Reads elements from an iterator; the next one is fetched while the body works on the current one."""
  iterator, make, head = f"{name}/iterator", f"{name}/make", f"{name}/first"
  handle = _output(iterator, "handle", in_function)
  optional, loop_handle = f"v{first}", f"v{first + 1}"
  return _Source(
    before=[
      node_defs.node_def("AnonymousIteratorV3", iterator, control, elements),
      node_defs.node_def("MakeIterator", make, [dataset, handle], {}),
      node_defs.node_def("IteratorGetNextAsOptional", head, [handle, f"^{make}"], elements),
    ],
    types=[_VARIANT, _RESOURCE],
    inputs=[_output(head, "optional", in_function), handle],
    condition=(
      [node_defs.node_def("OptionalHasValue", "test", [optional], {})],
      "test:has_value:0",
    ),
    body=[
      node_defs.node_def("OptionalGetValue", "element", [optional], elements),
      node_defs.node_def("IteratorGetNextAsOptional", "next", [loop_handle], elements),
    ],
    element="components",
    next_values=["next:optional:0", loop_handle],
  )


def _by_index(
  name: str,
  dataset: str,
  control: list[str],
  elements: Mapping[str, attr_value_pb2.AttrValue],
  first: int,
  in_function: bool,
  added: dict[str, function_pb2.FunctionDef],
  batches: _Batches,
) -> _Source:
  """Gathers elements from the arrays of `ClientBatches`."""
  types, shapes = elements["output_types"].list.type, elements["output_shapes"].list.shape
  specs = tuple(tf.TensorSpec(s, tf.as_dtype(t)) for t, s in zip(types, shapes, strict=True))
  reader = batch_reader.reader(batches.rule, specs, batches.repeats, batches.on_gpu)
  added.update((function.signature.name, function) for function in (*reader.open, *reader.get))
  zero, opened = f"{name}/zero", f"{name}/opened"
  outputs = [
    f"{opened}:output:{i}" if in_function else f"{opened}:{i}" for i in range(1 + len(reader.types))
  ]
  position, count = f"v{first}", f"v{first + 1}"
  variables = [f"v{first + 2 + i}" for i in range(len(reader.types))]
  following = [f"element:output:{len(types) + i}" for i in range(len(variables))]
  index = reader.index.as_datatype_enum
  of_index = {"T": attr_value_pb2.AttrValue(type=index)}
  return _Source(
    before=[
      node_defs.constant(zero, 0, reader.index),
      node_defs.call(opened, reader.open[0].signature, [dataset, *control]),
    ],
    types=[index, index, *(dtype.as_datatype_enum for dtype in reader.types)],
    inputs=[_output(zero, "output", in_function), *outputs],
    condition=([node_defs.node_def("Less", "test", [position, count], of_index)], "test:z:0"),
    body=[node_defs.call("element", reader.get[0].signature, [position, *variables])],
    element="output",
    next_values=[following[0], count, *following[1:], variables[-1]],
  )


def _condition(name: str, loop_types: list[int], source: _Source) -> function_pb2.FunctionDef:
  function = function_pb2.FunctionDef(signature=_signature(name, loop_types))
  function.signature.output_arg.add(name="go_on", type=_BOOL)
  nodes, result = source.condition
  function.node_def.extend(nodes)
  function.ret["go_on"] = result
  return function


def _body(
  name: str, step: Step, loop_types: list[int], source: _Source
) -> function_pb2.FunctionDef:
  function = function_pb2.FunctionDef(signature=_signature(name, loop_types))
  variables = [f"v{i}" for i in range(len(loop_types))]
  captured = variables[len(step.states) + len(source.types) :]
  given = dict(zip(step.states, variables, strict=False))
  given |= {i: f"element:{source.element}:{place}" for place, i in enumerate(step.elements)}
  given |= dict(zip(step.captured, captured, strict=True))
  given |= {i: f"{node.name}:output:0" for i, node in step.constants.items()}
  signature = step.definition.signature
  call = {
    "Tin": node_defs.type_list([argument.type for argument in signature.input_arg]),
    "Tout": node_defs.type_list([argument.type for argument in signature.output_arg]),
    "f": node_defs.function_value(signature.name),
  }
  function.node_def.extend([*source.body, *step.constants.values()])
  arguments = [given[i] for i in range(len(given))]
  function.node_def.append(node_defs.node_def("StatefulPartitionedCall", "step", arguments, call))
  results = [*(f"step:output:{i}" for i in step.states), *source.next_values, *captured]
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


def _output(node: str, argument: str, in_function: bool) -> str:
  return f"{node}:{argument}:0" if in_function else f"{node}:0"
