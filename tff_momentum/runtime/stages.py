"""Groups a plan's nodes into stages and traces each stage as one TensorFlow function.

A computation runs as server stage 0, pass 0 over the clients, server stage 1, pass 1, and so on. A pass runs
one function for each client and folds the results into all aggregates of that level with another function.
Client values that a later pass or the caller needs are kept; all others are freed when the client's function
ends.
"""

import dataclasses
from collections.abc import Iterable, Sequence

import tensorflow as tf

from tff_momentum.runtime import functions, types
from tff_momentum.runtime.plan import Aggregate, Node, Plan, nodes_in

# The number of clients' results that one call of the fold function adds, one after the other.
FOLD_BLOCK = 8


@dataclasses.dataclass
class Stage:
  """One traced function from the values of some nodes to the values of others."""

  inputs: list[Node]
  outputs: list[Node]
  function: functions.FlatFunction


@dataclasses.dataclass
class Fold:
  """Adds clients' results to aggregates; `functions[k]` adds those of k clients, in order."""

  aggregates: list[Aggregate]
  captured: list[Node]
  values: list[Node]
  functions: dict[int, functions.FlatFunction]


@dataclasses.dataclass
class ClientPass:
  """What happens between two server stages: one function at each client, and the fold.

  Attributes:
    shared: The server's nodes that the function reads.
    own: The client's nodes that it reads.
    outputs: The nodes that it returns.
    kept: Those of the outputs that a later pass or the caller needs.
    function: The traced function, from `shared` and `own` to `outputs`.
    fold: How the outputs are aggregated; None if they are not.
  """

  shared: list[Node]
  own: list[Node]
  outputs: list[Node]
  kept: list[Node]
  function: functions.FlatFunction
  fold: Fold | None


@dataclasses.dataclass
class Level:
  """A server stage and the pass over the clients that follows it; either may be absent."""

  server: Stage | None
  clients: ClientPass | None


def build_levels(plan: Plan) -> list[Level]:
  """Traces the functions of `plan` that its result depends on."""
  needed = _needed_nodes(plan)
  result = set(nodes_in(plan.result))
  count = 1 + max((node.level for node in needed), default=0)
  return [_build_level(level, needed, result) for level in range(count)]


def _needed_nodes(plan: Plan) -> list[Node]:
  """Returns the nodes that the result depends on, each after its own sources."""
  order: dict[Node, None] = {}

  def visit(node: Node) -> None:
    if node not in order:
      for source in _sources(node):
        visit(source)
      order[node] = None

  for node in nodes_in(plan.result):
    visit(node)
  return list(order)


def _sources(node: Node) -> tuple[Node, ...]:
  if isinstance(node, Aggregate):
    return (node.value, node.zero, *node.captured)
  return node.inputs


def _build_level(level: int, needed: list[Node], result: set[Node]) -> Level:
  def computed(at_clients: bool) -> list[Node]:
    return [n for n in needed if n.compute and n.level == level and n.at_clients == at_clients]

  server, clients = computed(at_clients=False), computed(at_clients=True)
  aggregates = [n for n in needed if isinstance(n, Aggregate) and n.level == level + 1]
  used_elsewhere = set(result)
  for node in needed:
    inside = node.compute is not None and node.level == level
    for source in _sources(node):
      if not (inside and node.at_clients == source.at_clients):
        used_elsewhere.add(source)
  server_stage = _build_server_stage(level, server, used_elsewhere) if server else None
  return Level(server_stage, _build_pass(level, clients, aggregates, needed, result))


def _build_server_stage(level: int, nodes: list[Node], used_elsewhere: set[Node]) -> Stage:
  inputs = _outer_inputs(nodes)
  outputs = [node for node in nodes if node in used_elsewhere]
  return Stage(inputs, outputs, _trace(f"server_{level}", inputs, nodes, outputs))


def _build_pass(
  level: int, nodes: list[Node], aggregates: list[Aggregate], needed: list[Node], result: set[Node]
) -> ClientPass | None:
  later = set(result)
  for node in needed:
    if node.level > level and node.compute and node.at_clients:
      later |= set(node.inputs)
    if isinstance(node, Aggregate) and node.level > level + 1:
      later.add(node.value)
  kept = [node for node in nodes if node in later]
  folded = _unique(aggregate.value for aggregate in aggregates)
  if not kept and not folded:
    return None
  outputs = _unique([*folded, *kept])
  inputs = _unique([*_outer_inputs(nodes), *(n for n in outputs if n not in set(nodes))])
  shared = [node for node in inputs if not node.at_clients]
  own = [node for node in inputs if node.at_clients]
  function = _trace(f"client_{level}", [*shared, *own], nodes, outputs)
  return ClientPass(shared, own, outputs, kept, function, _build_fold(level, aggregates, folded))


def _build_fold(level: int, aggregates: list[Aggregate], values: list[Node]) -> Fold | None:
  if not aggregates:
    return None
  captured = _unique(node for aggregate in aggregates for node in aggregate.captured)
  state_specs = _specs(aggregates)
  captured_specs, value_specs = _specs(captured), _specs(values)

  def build(clients: int) -> functions.FlatFunction:
    def fold(inputs: list[tf.Tensor]) -> list[tf.Tensor]:
      leaves = iter(inputs)
      states = [types.unflatten(a.type_spec, leaves) for a in aggregates]
      extras = {node: types.unflatten(node.type_spec, leaves) for node in captured}
      for _ in range(clients):
        items = {node: types.unflatten(node.type_spec, leaves) for node in values}
        states = [
          a.accumulate(state, items[a.value], *(extras[node] for node in a.captured))
          for a, state in zip(aggregates, states, strict=True)
        ]
      return types.flatten(tuple(states))

    specs = state_specs + captured_specs + value_specs * clients
    return functions.FlatFunction(f"fold_{level}_{clients}", fold, specs)

  return Fold(aggregates, captured, values, {1: build(1), FOLD_BLOCK: build(FOLD_BLOCK)})


def _trace(
  label: str, inputs: Sequence[Node], nodes: Sequence[Node], outputs: Sequence[Node]
) -> functions.FlatFunction:
  def run(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
    leaves = iter(tensors)
    values: dict[Node, types.Value] = {n: types.unflatten(n.type_spec, leaves) for n in inputs}
    for node in nodes:
      assert node.compute is not None
      values[node] = node.compute(*(values[source] for source in node.inputs))
    return [leaf for node in outputs for leaf in types.flatten(values[node])]

  return functions.FlatFunction(label, run, _specs(inputs))


def _specs(nodes: Iterable[Node]) -> list[tf.TensorSpec]:
  return [spec for node in nodes for spec in types.flat_specs(node.type_spec)]


def _outer_inputs(nodes: Sequence[Node]) -> list[Node]:
  inside = set(nodes)
  return _unique(s for node in nodes for s in node.inputs if s not in inside)


def _unique(nodes: Iterable[Node]) -> list[Node]:
  return list(dict.fromkeys(nodes))
