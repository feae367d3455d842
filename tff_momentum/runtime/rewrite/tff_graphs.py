"""Turns the TensorFlow graph inside a TFF computation into one that can be part of a larger function.

TFF writes graphs for a session: variables are shared by name, an initialise op is run first, and a
feed may be consumed by control edges. Inside a function every call needs variables of its own
(clients run at the same time), initialisation must be ordered by edges, and only what the results
need may be imported.
"""

import collections
import contextlib
import contextvars
import dataclasses
import functools
import hashlib
from collections.abc import Iterable, Iterator, Sequence

import tensorflow as tf
from tensorflow_federated.proto.v0 import computation_pb2
from tensorflow_federated.python.core.impl.utils import tensorflow_utils
from tensorflow_federated.python.tensorflow_libs import serialization_utils

from tff_momentum.runtime.rewrite import dataset_reduce, xla_compilation

# The name by which TensorFlow makes a fresh, reference-counted resource each time the op runs.
_ANONYMOUS = b"cd2c89b7-88b7-44c8-ad83-06c2a9158347"
_ANONYMOUS_TABLES = {
  "HashTableV2": "AnonymousHashTable",
  "MutableHashTableV2": "AnonymousMutableHashTable",
  "MutableHashTableOfTensorsV2": "AnonymousMutableHashTableOfTensors",
  "MutableDenseHashTableV2": "AnonymousMutableDenseHashTable",
}
_TABLE_NAME_ATTRIBUTES = ("shared_name", "container", "use_node_name_sharing")
_MAX_CACHED_GRAPHS = 512
LARGE = 2**26  # bytes; a computation with constants of this size is not kept in caches


@dataclasses.dataclass(frozen=True)
class Options:
  """How graphs are rewritten: read data sets as lists of batches (`lists`), compile gradients (`xla`)."""

  as_lists: bool = False
  compile: xla_compilation.Compile = "auto"


_DEFAULT = Options()
_options: contextvars.ContextVar[Options] = contextvars.ContextVar("options", default=_DEFAULT)


@dataclasses.dataclass(frozen=True)
class PreparedGraph:
  """A graph ready for import: its feeds, its fetches, and nothing that the fetches do not need."""

  graph_def: tf.compat.v1.GraphDef
  feeds: tuple[str, ...]
  fetches: tuple[str, ...]
  used_feeds: frozenset[str]
  session_token: str | None

  def __call__(self, arguments: Sequence[tf.Tensor]) -> list[tf.Tensor]:
    """Imports the graph into the graph being traced, fed with `arguments`; returns its results."""
    fed = dict(zip(self.feeds, map(_in_current_graph, arguments), strict=True))
    input_map = {name: tensor for name, tensor in fed.items() if name in self.used_feeds}
    if self.session_token in self.used_feeds:
      input_map[self.session_token] = tf.constant("in-process")
    made_here = [name for name in self.fetches if name not in fed]
    imported = tf.graph_util.import_graph_def(
      self.graph_def, input_map, return_elements=made_here, name="block"
    )
    results = dict(zip(made_here, imported, strict=True)) | fed
    return [results[name] for name in self.fetches]


def _in_current_graph(tensor: tf.Tensor) -> tf.Tensor:
  """Captures a tensor of an enclosing function; imports take tensors of their own graph only."""
  return tensor if tensor.graph is tf.compat.v1.get_default_graph() else tf.identity(tensor)


@contextlib.contextmanager
def using(options: Options) -> Iterator[None]:
  """Inside the `with` block, graphs are prepared with these options."""
  token = _options.set(options)
  try:
    yield
  finally:
    _options.reset(token)


def require_iterators() -> None:
  """To be called where data sets are used in a way in which lists of batches cannot be."""
  if _options.get().as_lists:
    raise dataset_reduce.NeedsIterators("a data set made or mapped by TFF itself")


def prepare(proto: computation_pb2.Computation) -> PreparedGraph:
  """Returns the prepared graph of a TensorFlow computation, from a cache keyed by its content."""
  if proto.WhichOneof("computation") != "tensorflow":
    raise NotImplementedError(
      "Expected a computation written in TensorFlow, found one of kind "
      f"{proto.WhichOneof('computation')!r}; write it with tff.tensorflow.computation."
    )
  serialized = proto.tensorflow.SerializeToString(deterministic=True)
  if len(serialized) > LARGE:
    return _prepare_serialized.__wrapped__(serialized, _options.get())
  return _prepare_serialized(serialized, _options.get())


@functools.lru_cache(maxsize=_MAX_CACHED_GRAPHS)
def _prepare_serialized(serialized: bytes, options: Options) -> PreparedGraph:
  block = computation_pb2.TensorFlow.FromString(serialized)
  feeds = _binding_names(block, "parameter")
  fetches = _binding_names(block, "result")
  token = block.session_token_tensor_name or None
  source = serialization_utils.unpack_graph_def(block.graph_def)
  nodes = {node.name: node for node in source.node}
  fed_nodes = {_node_name(name) for name in feeds} | ({_node_name(token)} if token else set())

  initialize = _node_name(block.initialize_op) if block.initialize_op else None
  before = _ancestors(nodes, [initialize] if initialize else [], fed_nodes)
  during = _ancestors(nodes, [_node_name(name) for name in fetches], fed_nodes)
  handles = {
    name
    for name in before | during
    if nodes[name].op == "VarHandleOp" or nodes[name].op in _ANONYMOUS_TABLES
  }
  keep = during | before if handles & during else during

  graph_def = tf.compat.v1.GraphDef(versions=source.versions)
  for node in source.node:
    if node.name not in keep or node.name in fed_nodes:
      continue
    copy = graph_def.node.add()
    copy.CopyFrom(node)
    _make_private(copy)
    copy.attr.pop("_class", None)
    copy.device = ""
    data = [name for name in copy.input if not name.startswith("^")]
    control = [name for name in copy.input if name.startswith("^") and name[1:] not in fed_nodes]
    reads_handle = any(_node_name(name) in handles for name in data)
    if initialize in keep and reads_handle and node.name not in before:
      control.append("^" + initialize)
    del copy.input[:]
    copy.input.extend(data + control)

  kind = "listed" if options.as_lists else "iterated"
  suffix = f"{hashlib.sha256(serialized).hexdigest()[:12]}_{kind}_{options.compile}"
  _copy_library(source, graph_def, suffix)
  dataset_reduce.rewrite_reduces(graph_def, options.as_lists)
  xla_compilation.mark_gradients(graph_def, options.compile)
  consumed = {_canonical(name) for node in graph_def.node for name in node.input}
  return PreparedGraph(graph_def, feeds, fetches, frozenset(consumed & {*feeds, token}), token)


def _binding_names(block: computation_pb2.TensorFlow, field: str) -> tuple[str, ...]:
  if not block.HasField(field):
    return ()
  return tuple(tensorflow_utils.extract_tensor_names_from_binding(getattr(block, field)))


def _node_name(tensor_name: str) -> str:
  return tensor_name.removeprefix("^").split(":")[0]


def _canonical(input_name: str) -> str:
  """Writes an input as a tensor name: `x` means `x:0`."""
  return input_name if ":" in input_name or input_name.startswith("^") else input_name + ":0"


def _ancestors(nodes: dict, roots: Iterable[str], stop: set[str]) -> set[str]:
  seen: set[str] = set()
  queue = collections.deque(roots)
  while queue:
    name = queue.popleft()
    if name in seen or name in stop:
      continue
    seen.add(name)
    queue.extend(_node_name(source) for source in nodes[name].input)
  return seen


def _make_private(node: tf.compat.v1.NodeDef) -> None:
  """Gives every execution of `node` a resource of its own, where it would share one by name."""
  if node.op == "VarHandleOp":
    node.attr["shared_name"].s = _ANONYMOUS
    node.attr["container"].s = b""
  elif node.op in _ANONYMOUS_TABLES:
    node.op = _ANONYMOUS_TABLES[node.op]
    for name in _TABLE_NAME_ATTRIBUTES:
      node.attr.pop(name, None)


def _copy_library(
  source: tf.compat.v1.GraphDef, target: tf.compat.v1.GraphDef, suffix: str
) -> None:
  """Copies the functions that `target` needs, renamed so that two graphs' libraries never clash."""
  library = {function.signature.name: function for function in source.library.function}
  gradient_of = {item.function_name: item.gradient_func for item in source.library.gradient}
  needed: dict[str, None] = {}
  queue = collections.deque(_called(target.node, library))
  while queue:
    name = queue.popleft()
    if name in needed:
      continue
    needed[name] = None
    queue.extend(_called(library[name].node_def, library))
    if name in gradient_of:
      queue.append(gradient_of[name])

  renamed = {name: f"{name}_{suffix}" for name in needed}
  _rename_calls(target.node, renamed)
  for name in needed:
    function = target.library.function.add()
    function.CopyFrom(library[name])
    function.signature.name = renamed[name]
    _rename_calls(function.node_def, renamed)
    for node in function.node_def:
      node.device = ""
    if name in gradient_of:
      target.library.gradient.add(
        function_name=renamed[name], gradient_func=renamed[gradient_of[name]]
      )


def _function_attributes(node: tf.compat.v1.NodeDef) -> Iterable:
  for attribute in node.attr.values():
    if attribute.HasField("func"):
      yield attribute.func
    yield from attribute.list.func if attribute.HasField("list") else ()


def _called(nodes: Iterable[tf.compat.v1.NodeDef], library: dict) -> list[str]:
  names = []
  for node in nodes:
    names += [node.op] if node.op in library else []
    names += [function.name for function in _function_attributes(node) if function.name in library]
  return names


def _rename_calls(nodes: Iterable[tf.compat.v1.NodeDef], renamed: dict[str, str]) -> None:
  for node in nodes:
    node.op = renamed.get(node.op, node.op)
    for function in _function_attributes(node):
      function.name = renamed.get(function.name, function.name)
