"""Makes a graph written for a TensorFlow session callable as part of a function.

TFF writes graphs for a session: variables are shared by name, an initialisation op runs first, and control
edges may read a feed. Inside a function, every call needs its own variables because clients run at the same
time, edges must order the initialisation, and only the nodes that the results need may be imported. The pass
`resource_order` orders everything else that uses a variable.
"""

import collections
import dataclasses
import hashlib
from collections.abc import Iterable, Mapping

import tensorflow as tf
from tensorflow.core.framework import node_def_pb2
from tensorflow_federated.proto.v0 import computation_pb2
from tensorflow_federated.python.core.impl.utils import tensorflow_utils
from tensorflow_federated.python.tensorflow_libs import serialization_utils

# TensorFlow creates a new, reference-counted resource whenever an op with this shared name runs.
_ANONYMOUS = b"cd2c89b7-88b7-44c8-ad83-06c2a9158347"
_ANONYMOUS_TABLES = {
  "HashTableV2": "AnonymousHashTable",
  "MutableHashTableV2": "AnonymousMutableHashTable",
  "MutableHashTableOfTensorsV2": "AnonymousMutableHashTableOfTensors",
  "MutableDenseHashTableV2": "AnonymousMutableDenseHashTable",
}
_TABLE_NAME_ATTRIBUTES = ("shared_name", "container", "use_node_name_sharing")


@dataclasses.dataclass
class SessionGraph:
  """The graph of a TFF computation while it is being rewritten.

  Attributes:
    graph_def: The graph; passes change it in place.
    feeds: The names of its argument tensors.
    fetches: The names of its result tensors.
    session_token: The name of the tensor with which TFF tells sessions apart, if there is one.
    initialize_op: The node that initialises variables and tables, if there is one.
    digest: A hash of the computation, which tells graphs apart.
  """

  graph_def: tf.compat.v1.GraphDef
  feeds: tuple[str, ...]
  fetches: tuple[str, ...]
  session_token: str | None
  initialize_op: str | None
  digest: str

  @classmethod
  def parse(cls, serialized: bytes) -> "SessionGraph":
    """Reads a serialised `computation_pb2.TensorFlow`."""
    block = computation_pb2.TensorFlow.FromString(serialized)
    return cls(
      graph_def=serialization_utils.unpack_graph_def(block.graph_def),
      feeds=_binding_names(block, "parameter"),
      fetches=_binding_names(block, "result"),
      session_token=block.session_token_tensor_name or None,
      initialize_op=_node_name(block.initialize_op) if block.initialize_op else None,
      digest=hashlib.sha256(serialized).hexdigest()[:12],
    )


def make_callable(graph: SessionGraph) -> None:
  """Keeps the nodes that the results need, with resources of their own and ordered initialisation."""
  nodes = {node.name: node for node in graph.graph_def.node}
  token, initialize = graph.session_token, graph.initialize_op
  fed = {_node_name(name) for name in graph.feeds} | ({_node_name(token)} if token else set())
  before = _ancestors(nodes, [initialize] if initialize else [], fed)
  during = _ancestors(nodes, [_node_name(name) for name in graph.fetches], fed)
  handles = {
    name
    for name in before | during
    if nodes[name].op == "VarHandleOp" or nodes[name].op in _ANONYMOUS_TABLES
  }
  needed = during | before if handles & during else during
  kept = [node for node in graph.graph_def.node if node.name in needed and node.name not in fed]
  for node in kept:
    _make_private(node)
    node.attr.pop("_class", None)
    node.device = ""
    data = [name for name in node.input if not name.startswith("^")]
    control = [name for name in node.input if name.startswith("^") and name[1:] not in fed]
    reads_handle = any(_node_name(name) in handles for name in data)
    if initialize in needed and reads_handle and node.name not in before:
      control.append(f"^{initialize}")
    del node.input[:]
    node.input.extend(data + control)
  del graph.graph_def.node[:]
  graph.graph_def.node.extend(kept)


def _binding_names(block: computation_pb2.TensorFlow, field: str) -> tuple[str, ...]:
  if not block.HasField(field):
    return ()
  return tuple(tensorflow_utils.extract_tensor_names_from_binding(getattr(block, field)))


def _node_name(tensor_name: str) -> str:
  return tensor_name.removeprefix("^").split(":")[0]


def _ancestors(
  nodes: Mapping[str, node_def_pb2.NodeDef], roots: Iterable[str], stop: set[str]
) -> set[str]:
  """Returns the nodes from which `roots` can be reached without passing through `stop`."""
  seen: set[str] = set()
  queue = collections.deque(roots)
  while queue:
    name = queue.popleft()
    if name in seen or name in stop:
      continue
    seen.add(name)
    queue.extend(_node_name(source) for source in nodes[name].input)
  return seen


def _make_private(node: node_def_pb2.NodeDef) -> None:
  """Gives every execution of `node` its own resource instead of one shared by name."""
  if node.op == "VarHandleOp":
    node.attr["shared_name"].s = _ANONYMOUS
    node.attr["container"].s = b""
  elif node.op in _ANONYMOUS_TABLES:
    node.op = _ANONYMOUS_TABLES[node.op]
    for name in _TABLE_NAME_ATTRIBUTES:
      node.attr.pop(name, None)
