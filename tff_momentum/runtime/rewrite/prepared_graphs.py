"""The TensorFlow graphs inside a TFF computation, rewritten and ready to become part of a larger function."""

import dataclasses
import functools
from collections.abc import Sequence

import tensorflow as tf
from tensorflow_federated.proto.v0 import computation_pb2

from tff_momentum.runtime.rewrite import options as rewrite_options
from tff_momentum.runtime.rewrite import passes
from tff_momentum.runtime.rewrite.options import RewriteOptions
from tff_momentum.runtime.rewrite.session_graphs import SessionGraph

_MAX_CACHED_GRAPHS = 512
LARGE = 2**26  # bytes; computations with constants of this size are not cached


@dataclasses.dataclass(frozen=True)
class PreparedGraph:
  """A graph that can be imported any number of times.

  Attributes:
    graph_def: The nodes that the fetches need, without the feeds.
    feeds: The names of the argument tensors.
    fetches: The names of the result tensors; a result may be an argument.
    used_feeds: The feeds (and the session token) that some node reads.
    session_token: The name of the tensor with which TFF tells sessions apart, if there is one.
  """

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
  """Captures a tensor of an enclosing function, because imports accept only tensors of their own graph."""
  return tensor if tensor.graph is tf.compat.v1.get_default_graph() else tf.identity(tensor)


def prepare(proto: computation_pb2.Computation) -> PreparedGraph:
  """Returns the rewritten graph of a TensorFlow computation, from a cache keyed by its content.

  Args:
    proto: The computation.

  Raises:
    NotImplementedError: The computation is not written in TensorFlow.
    NeedsIterators: The options in force are for `ClientBatches`, which the graph does not support.
  """
  if proto.WhichOneof("computation") != "tensorflow":
    raise NotImplementedError(
      "Expected a computation written in TensorFlow, found one of kind "
      f"{proto.WhichOneof('computation')!r}; write it with tff.tensorflow.computation."
    )
  serialized = proto.tensorflow.SerializeToString(deterministic=True)
  if len(serialized) > LARGE:
    return _prepare_serialized.__wrapped__(serialized, rewrite_options.current())
  return _prepare_serialized(serialized, rewrite_options.current())


@functools.lru_cache(maxsize=_MAX_CACHED_GRAPHS)
def _prepare_serialized(serialized: bytes, options: RewriteOptions) -> PreparedGraph:
  graph = SessionGraph.parse(serialized)
  passes.run_all(graph, options)
  consumed = {_tensor_name(name) for node in graph.graph_def.node for name in node.input}
  used = frozenset(consumed & {*graph.feeds, graph.session_token})
  return PreparedGraph(graph.graph_def, graph.feeds, graph.fetches, used, graph.session_token)


def _tensor_name(input_name: str) -> str:
  """Writes an input as a tensor name: `x` means `x:0`."""
  return input_name if ":" in input_name or input_name.startswith("^") else input_name + ":0"
