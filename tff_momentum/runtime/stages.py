"""Groups a plan's nodes into stages and traces each stage as one TensorFlow function.

A computation runs as server stage 0, pass 0 over the clients, server stage 1, pass 1, and so on. A pass (see
`client_pass`) runs the clients and folds their results into all aggregates of that level. Client values that
a later pass or the caller needs are kept; all others are freed when the client's work ends.
"""

import dataclasses
from collections.abc import Sequence

import tensorflow as tf

from tff_momentum.runtime import functions, types
from tff_momentum.runtime.client_pass import ClientPass
from tff_momentum.runtime.plan import (
  Aggregate,
  Node,
  Plan,
  evaluate,
  nodes_in,
  outer_inputs,
  read,
  sources_of,
  specs_of,
)


@dataclasses.dataclass
class Stage:
  """One traced function from the values of some nodes to the values of others."""

  inputs: list[Node]
  outputs: list[Node]
  function: functions.FlatFunction


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
  # A computation without clients, such as `initialize`, may return a large state that is mostly zeros.
  folded = any(node.at_clients for node in needed)
  return [_build_level(level, needed, result, folded) for level in range(count)]


def _needed_nodes(plan: Plan) -> list[Node]:
  """Returns the nodes that the result depends on, each after its own sources."""
  order: dict[Node, None] = {}

  def visit(node: Node) -> None:
    if node not in order:
      for source in sources_of(node):
        visit(source)
      order[node] = None

  for node in nodes_in(plan.result):
    visit(node)
  return list(order)


def _build_level(level: int, needed: list[Node], result: set[Node], folded: bool) -> Level:
  def computed(at_clients: bool) -> list[Node]:
    return [n for n in needed if n.compute and n.level == level and n.at_clients == at_clients]

  server, clients = computed(at_clients=False), computed(at_clients=True)
  aggregates = [n for n in needed if isinstance(n, Aggregate) and n.level == level + 1]
  used_elsewhere = set(result)
  for node in needed:
    inside = node.compute is not None and node.level == level
    for source in sources_of(node):
      if not (inside and node.at_clients == source.at_clients):
        used_elsewhere.add(source)
  server_stage = _build_server_stage(level, server, used_elsewhere, folded) if server else None
  return Level(server_stage, _build_pass(level, clients, aggregates, needed, result))


def _build_server_stage(
  level: int, nodes: list[Node], used_elsewhere: set[Node], folded: bool
) -> Stage:
  inputs = outer_inputs(nodes)
  outputs = [node for node in nodes if node in used_elsewhere]
  return Stage(inputs, outputs, _trace(f"server_{level}", inputs, nodes, outputs, folded))


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
  if not kept and not aggregates:
    return None
  return ClientPass(level, nodes, aggregates, kept)


def _trace(
  label: str, inputs: Sequence[Node], nodes: Sequence[Node], outputs: Sequence[Node], folded: bool
) -> functions.FlatFunction:
  def run(tensors: list[tf.Tensor]) -> list[tf.Tensor]:
    values = evaluate(nodes, read(inputs, iter(tensors)))
    return [leaf for node in outputs for leaf in types.flatten(values[node])]

  return functions.FlatFunction(label, run, specs_of(inputs), folded)
