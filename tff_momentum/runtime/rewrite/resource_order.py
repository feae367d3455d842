"""Orders the nodes of a graph that share a variable or a table, so that equal calls give equal bits.

A TensorFlow session orders nodes only by their edges. TFF computations written in the style of TensorFlow 1
leave edges out: a computation may change a variable in `Dataset.reduce` and return the variable, and whether
it returns the old or the new value is a race. In a session, the reduce kernel hands its work to another
thread, and everything that does not wait for it runs first. So TFF's worker gives the same value every time.

This pass adds the missing edges. They follow the order in which one thread would run the nodes: as
soon as they can run, in the order in which the program made them, but nodes that read a data set run only
when nothing else can.
"""

import heapq
from collections.abc import Iterable, Mapping, Sequence

import tensorflow as tf
from tensorflow.core.framework import function_pb2, node_def_pb2
from tensorflow.python.framework import op_def_registry

_RESOURCE, _VARIANT = tf.resource.as_datatype_enum, tf.variant.as_datatype_enum
_READS = frozenset(
  {
    "LookupTableExportV2",
    "LookupTableFindV2",
    "LookupTableSizeV2",
    "ReadVariableOp",
    "ResourceGather",
    "ResourceGatherNd",
    "VarIsInitializedOp",
    "VariableShape",
  }
)
# In control flow of TensorFlow 1 a node may be skipped, and what waits for it is skipped, too.
_MAY_BE_SKIPPED = frozenset({"Enter", "Merge", "Switch"})


def order(graph_def: tf.compat.v1.GraphDef) -> None:
  """Adds control edges between nodes that use the same resource, if one of them may change it."""
  nodes = {node.name: node for node in graph_def.node}
  users = _users(graph_def.node)
  if not any(_conflict(used) for used in users.values()):
    return
  if any(node.op in _MAY_BE_SKIPPED for node in graph_def.node):
    return
  late = _functions_that_read_data(graph_def.library.function)
  position = {name: i for i, name in enumerate(_schedule(graph_def.node, late))}
  for used in users.values():
    for before, after in _edges(sorted(used, key=position.__getitem__), used):
      if f"^{before}" not in nodes[after].input:
        nodes[after].input.append(f"^{before}")


def _users(nodes: Sequence[node_def_pb2.NodeDef]) -> dict[str, dict[str, bool]]:
  """Returns, for each node that makes a resource, the nodes that use it, and whether each may change it."""
  carried: dict[str, set[str]] = {}  # the resources behind a node's outputs
  users: dict[str, dict[str, bool]] = {}
  for node in _topological(nodes):
    sources = [_node_name(name) for name in node.input if not name.startswith("^")]
    found = {made for source in sources for made in carried.get(source, ())}
    returns = _output_types(node)
    if _RESOURCE in returns and not found:
      carried[node.name] = {node.name}
    elif returns & {_RESOURCE, _VARIANT}:  # an identity, or a data set that captures the resource
      carried[node.name] = found
    if not returns & {_RESOURCE, _VARIANT} or _acts(node):
      read_only = node.attr["_read_only_resource_inputs"].list.i if _is_call(node) else ()
      for made in found:
        users.setdefault(made, {})[node.name] = node.op not in _READS and any(
          made in carried.get(source, ()) and i not in read_only for i, source in enumerate(sources)
        )
  return users


def _is_call(node: node_def_pb2.NodeDef) -> bool:
  return "_read_only_resource_inputs" in node.attr


def _acts(node: node_def_pb2.NodeDef) -> bool:
  """Whether a node that returns a handle does something with the handles that it takes."""
  definition = op_def_registry.get(node.op)
  return definition is None or definition.is_stateful or node.op == "ReduceDataset"


def _conflict(used: Mapping[str, bool]) -> bool:
  return len(used) > 1 and any(used.values())


def _edges(order: Iterable[str], changes: Mapping[str, bool]) -> Iterable[tuple[str, str]]:
  """Yields pairs of names: each change after what came before it, each read after the last change."""
  last_change = None
  reads: list[str] = []
  for name in order:
    if last_change is not None:
      yield last_change, name
    if changes[name]:
      yield from ((read, name) for read in reads)
      last_change, reads = name, []
    else:
      reads.append(name)


def _topological(nodes: Sequence[node_def_pb2.NodeDef]) -> list[node_def_pb2.NodeDef]:
  by_name = {node.name: node for node in nodes}
  return [by_name[name] for name in _schedule(nodes, frozenset())]


def _schedule(nodes: Sequence[node_def_pb2.NodeDef], late: frozenset[str]) -> list[str]:
  """Returns the names in the order in which one thread would run the nodes."""
  place = {node.name: i for i, node in enumerate(nodes)}
  waiting: dict[str, int] = {}
  followers: dict[str, list[str]] = {name: [] for name in place}
  for node in nodes:
    sources = {_node_name(name) for name in node.input} & place.keys()
    waiting[node.name] = len(sources)
    for source in sources:
      followers[source].append(node.name)

  def priority(name: str) -> tuple[bool, int, str]:
    return _reads_data(nodes[place[name]], late), place[name], name

  ready = [priority(name) for name, count in waiting.items() if not count]
  heapq.heapify(ready)
  done = []
  while ready:
    name = heapq.heappop(ready)[-1]
    done.append(name)
    for follower in followers[name]:
      waiting[follower] -= 1
      if not waiting[follower]:
        heapq.heappush(ready, priority(follower))
  return done


def _functions_that_read_data(library: Iterable[function_pb2.FunctionDef]) -> frozenset[str]:
  bodies = {function.signature.name: function.node_def for function in library}
  late: frozenset[str] = frozenset()
  while True:
    more = frozenset(
      name for name, body in bodies.items() if any(_reads_data(node, late) for node in body)
    )
    if more == late:
      return late
    late = more


def _reads_data(node: node_def_pb2.NodeDef, late: frozenset[str]) -> bool:
  if node.op == "ReduceDataset" or node.op.startswith("IteratorGetNext"):
    return True
  return node.op in late or any(
    called.name in late
    for attribute in node.attr.values()
    for called in ([attribute.func] if attribute.HasField("func") else attribute.list.func)
  )


def _output_types(node: node_def_pb2.NodeDef) -> set[int]:
  definition = op_def_registry.get(node.op)
  if definition is None:  # a call of a function by its name
    return {_VARIANT}
  found: set[int] = set()
  for output in definition.output_arg:
    if output.type_list_attr:
      found.update(node.attr[output.type_list_attr].list.type)
    else:
      found.add(node.attr[output.type_attr].type if output.type_attr else output.type)
  return found


def _node_name(input_name: str) -> str:
  return input_name.removeprefix("^").split(":")[0]
