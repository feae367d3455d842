"""Reads a computation in call-dominant form as a graph of placed values.

Each value is a `Node`: an input, the result of local code at the server or at every client, or an aggregate.
A value that is the same for all clients (a broadcast) is the server's node itself. The `level` of a node is
the number of passes over the clients that must end before it can be computed. So all server nodes of a level
can become one TensorFlow function, and all client nodes of a level another.
"""

import dataclasses
import functools
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, TypeAlias

import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.compiler import building_blocks as blocks

from tff_momentum.runtime import trace_blocks, types
from tff_momentum.runtime.rewrite import options
from tff_momentum.runtime.types import Value


@dataclasses.dataclass(frozen=True, eq=False)
class Node:
  """A placed value.

  Attributes:
    type_spec: The type of the value at one participant.
    at_clients: Whether every client has its own value.
    level: The number of passes over the clients that come first.
    inputs: The nodes whose values `compute` takes.
    compute: Computes the value while a function is traced; None for an input or an aggregate.
  """

  type_spec: tff.Type
  at_clients: bool
  level: int
  inputs: tuple["Node", ...] = ()
  compute: Callable[..., Value] | None = None

  @functools.cached_property
  def num_leaves(self) -> int:
    """The number of tensors in the value."""
    return len(types.flat_specs(self.type_spec))


@dataclasses.dataclass(frozen=True, eq=False)
class Aggregate(Node):
  """The fold of a client value, block by block (see `blocks`).

  In a block, `accumulate(state, value, *captured)` adds one client after the other, starting at `zero`. Then
  `merge(state, state, *merge_captured)` combines the states of the blocks.
  """

  value: Node = None  # type: ignore[assignment]
  zero: Node = None  # type: ignore[assignment]
  captured: tuple[Node, ...] = ()
  accumulate: Callable[..., Value] = None  # type: ignore[assignment]
  merge_captured: tuple[Node, ...] = ()
  merge: Callable[..., Value] = None  # type: ignore[assignment]


@dataclasses.dataclass(frozen=True)
class Plan:
  """A computation as a graph: nests of nodes for its parameter and its result."""

  parameter: "NodeNest | None"
  result: "NodeNest"
  parameter_type: tff.Type | None
  result_type: tff.Type


@dataclasses.dataclass(frozen=True)
class _Function:
  """A function-valued block with the values of its free names."""

  block: blocks.ComputationBuildingBlock
  environment: "Environment"

  @property
  def type_signature(self) -> tff.FunctionType:
    return self.block.type_signature

  def bind(self) -> tuple[tuple[Node, ...], Callable[..., Value]]:
    """Returns the nodes that the function captures, and `call(argument, captured values)`."""
    free = {name: self.environment[name] for name in sorted(_free_names(self.block))}
    captured = tuple(nodes_in(tuple(free.values())))

    def call(argument, captured_values):
      values = iter(captured_values)
      environment = {name: replace_nodes(value, values) for name, value in free.items()}
      return trace_blocks.evaluate(self.block, environment)(argument)

    return captured, call


# A value of the plan: nodes in nested tuples. A function stands for the nodes that it captures.
NodeNest: TypeAlias = Node | _Function | tuple["NodeNest", ...]
Environment: TypeAlias = Mapping[str, NodeNest]


def nodes_in(value: NodeNest) -> Iterator[Node]:
  """Yields the nodes of a nest, and those that its functions capture, in order."""
  if isinstance(value, Node):
    yield value
  elif isinstance(value, tuple):
    for element in value:
      yield from nodes_in(element)
  elif isinstance(value, _Function):
    yield from value.bind()[0]


def replace_nodes(value: NodeNest, values: Iterator[Value]) -> Any:
  """Returns a nest with `values`, in the order of `nodes_in`, in place of its nodes."""
  if isinstance(value, Node):
    return next(values)
  if isinstance(value, tuple):
    return tuple(replace_nodes(element, values) for element in value)
  captured, call = value.bind()
  captured_values = [next(values) for _ in captured]
  return lambda argument: call(argument, captured_values)


def sources_of(node: Node) -> tuple[Node, ...]:
  """Returns the nodes that a node is computed from."""
  if isinstance(node, Aggregate):
    return (node.value, node.zero, *node.captured, *node.merge_captured)
  return node.inputs


def outer_inputs(nodes: Iterable[Node]) -> list[Node]:
  """Returns the inputs of some nodes that are not among these nodes."""
  inside = dict.fromkeys(nodes)
  return unique(source for node in inside for source in node.inputs if source not in inside)


def unique(nodes: Iterable[Node]) -> list[Node]:
  """Returns nodes in the order in which they first occur."""
  return list(dict.fromkeys(nodes))


def specs_of(nodes: Iterable[Node]) -> list[tf.TensorSpec]:
  """Returns the specifications of the leaves of some nodes."""
  return [spec for node in nodes for spec in types.flat_specs(node.type_spec)]


def read(nodes: Iterable[Node], leaves: Iterator[tf.Tensor]) -> dict[Node, Value]:
  """Takes the values of some nodes from their leaves."""
  return {node: types.unflatten(node.type_spec, leaves) for node in nodes}


def evaluate(nodes: Iterable[Node], values: Mapping[Node, Value]) -> dict[Node, Value]:
  """Computes nodes, each after its inputs, in the graph being traced; returns all values."""
  values = dict(values)
  for node in nodes:
    assert node.compute is not None
    values[node] = node.compute(*(values[source] for source in node.inputs))
  return values


def build_plan(block: blocks.ComputationBuildingBlock) -> Plan:
  """Returns the plan of `block`, a computation in call-dominant form."""
  signature = block.type_signature
  parameter = None if signature.parameter is None else _input_nodes(signature.parameter)
  function = _value(block, {})
  result = _call(function, parameter)
  return Plan(parameter, result, signature.parameter, signature.result)


def _input_nodes(type_spec: tff.Type) -> NodeNest:
  if isinstance(type_spec, tff.StructType):
    return tuple(_input_nodes(element) for element in type_spec)
  at_clients = (
    isinstance(type_spec, tff.FederatedType)
    and type_spec.placement is tff.CLIENTS
    and not type_spec.all_equal
  )
  return Node(types.member_of(type_spec), at_clients, level=0)


def _value(block: blocks.ComputationBuildingBlock, environment: Environment) -> Any:
  if isinstance(block, blocks.Reference):
    return environment[block.name]
  if isinstance(block, blocks.Selection):
    source, index = _value(block.source, environment), block.as_index()
    if isinstance(source, Node):
      return _local(block.type_signature, lambda value: value[index], source)
    return source[index]
  if isinstance(block, blocks.Struct):
    return tuple(_value(element, environment) for element in block)
  if isinstance(block, blocks.Block):
    inner = dict(environment)
    for name, value in block.locals:
      inner[name] = _value(value, inner)
    return _value(block.result, inner)
  if isinstance(block, blocks.Call):
    argument = None if block.argument is None else _value(block.argument, environment)
    return _call(_value(block.function, environment), argument)
  if isinstance(block, blocks.Literal):
    return _local(block.type_signature, lambda: trace_blocks.literal(block))
  if isinstance(block, blocks.Intrinsic) and block.uri == "generic_zero":
    return _local(block.type_signature, lambda: trace_blocks.evaluate(block, {}))
  if isinstance(block.type_signature, tff.FunctionType):
    return _Function(block, environment)
  raise NotImplementedError(
    f"Expected a block that TFF computations are made of, found {block.compact_representation()}."
  )


def _call(function: _Function, argument: Any) -> Any:
  block = function.block
  if isinstance(block, blocks.Lambda):
    return _value(block.result, {**function.environment, block.parameter_name: argument})
  if isinstance(block, blocks.Intrinsic) and block.uri in _FEDERATED_INTRINSICS:
    return _FEDERATED_INTRINSICS[block.uri](block.type_signature.result, argument)
  return _apply(function, argument, block.type_signature.result, at_clients=False)


def _local(type_spec: tff.Type, compute: Callable, *inputs: Node, at_clients=False) -> Node:
  level = max((node.level for node in inputs), default=0)
  return Node(types.member_of(type_spec), at_clients, level, inputs, compute)


def _apply(function: _Function, argument: Any, type_spec: tff.Type, at_clients: bool) -> Node:
  captured, call = function.bind()
  arguments = tuple(nodes_in(argument)) if argument is not None else ()

  def compute(*values):
    values_of_argument = iter(values[: len(arguments)])
    packed = None if argument is None else replace_nodes(argument, values_of_argument)
    return call(packed, values[len(arguments) :])

  return _local(type_spec, compute, *arguments, *captured, at_clients=at_clients)


def _map(type_spec: tff.FederatedType, argument: Any) -> Node:
  function, value = argument
  at_clients = type_spec.placement is tff.CLIENTS and not type_spec.all_equal
  return _apply(function, value, type_spec, at_clients)


def _eval_at_clients(type_spec: tff.FederatedType, function: _Function) -> Node:
  return _apply(function, None, type_spec, at_clients=True)


def _eval_at_server(type_spec: tff.FederatedType, function: _Function) -> Node:
  return _apply(function, None, type_spec, at_clients=False)


def _zip(type_spec: tff.Type, argument: Any) -> Node:
  parts = tuple(nodes_in(argument))
  at_clients = any(node.at_clients for node in parts)
  return _local(
    type_spec, lambda *values: replace_nodes(argument, iter(values)), *parts, at_clients=at_clients
  )


def _place(type_spec: tff.Type, argument: Any) -> Node:
  """Returns a broadcast or placed value: the same nodes, as one."""
  return argument if isinstance(argument, Node) else _zip(type_spec, argument)


def _aggregate(type_spec: tff.FederatedType, argument: Any) -> Node:
  value, zero, accumulate, merge, report = argument
  if not value.at_clients:  # a broadcast value is aggregated once per client
    value = _local(value.type_spec, lambda same: same, value, at_clients=True)
  captured, accumulate_call = accumulate.bind()
  merge_captured, merge_call = merge.bind()
  state_type = accumulate.type_signature.parameter[0]
  zero_node = _place(state_type, zero)
  passes_before = max(node.level for node in (value, zero_node, *captured, *merge_captured))
  total = Aggregate(
    state_type,
    at_clients=False,
    level=passes_before + 1,
    value=value,
    zero=zero_node,
    captured=captured,
    accumulate=lambda state, item, *extra: accumulate_call((state, item), extra),
    merge_captured=merge_captured,
    merge=lambda a, b, *extra: merge_call((a, b), extra),
  )
  return _apply(report, total, type_spec, at_clients=False)


def _select(type_spec: tff.FederatedType, argument: Any) -> Node:
  keys, _, server_value, select = argument
  captured, call = select.bind()

  def compute(keys_value, server, *extra):
    options.require_iterators()
    dataset = tf.data.Dataset.from_tensor_slices(keys_value).map(
      lambda key: trace_blocks.to_element(call((server, key), extra), type_spec.member.element)
    )
    return tf.data.experimental.to_variant(dataset)

  return _local(type_spec, compute, keys, server_value, *captured, at_clients=keys.at_clients)


def _free_names(block: blocks.ComputationBuildingBlock) -> set[str]:
  if isinstance(block, blocks.Reference):
    return {block.name}
  if isinstance(block, blocks.Lambda):
    return _free_names(block.result) - {block.parameter_name}
  if isinstance(block, blocks.Block):
    free: set[str] = set()
    bound: set[str] = set()
    for name, value in block.locals:
      free |= _free_names(value) - bound
      bound.add(name)
    return free | (_free_names(block.result) - bound)
  return {name for child in block.children() for name in _free_names(child)}


_FEDERATED_INTRINSICS: dict[str, Callable[[tff.Type, Any], Node]] = {
  "federated_aggregate": _aggregate,
  "federated_apply": _map,
  "federated_broadcast": _place,
  "federated_eval_at_clients": _eval_at_clients,
  "federated_eval_at_server": _eval_at_server,
  "federated_map": _map,
  "federated_map_all_equal": _map,
  "federated_select": _select,
  "federated_value_at_clients": _place,
  "federated_value_at_server": _place,
  "federated_zip_at_clients": _zip,
  "federated_zip_at_server": _zip,
}
