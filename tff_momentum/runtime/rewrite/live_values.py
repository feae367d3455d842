"""Finds the arguments of a function that its results need.

A loop carries every value of a step to the next one, and TensorFlow keeps those that nobody reads: the number
of the step where there is no dropout, and the size of a full batch where XLA compiles nothing. For a small
client each of them costs as much as the arithmetic on a layer.
"""

from collections.abc import Iterable, Mapping

from tensorflow.core.framework import function_pb2, node_def_pb2
from tensorflow.python.framework import op_def_registry

_CALLS = ("PartitionedCall", "StatefulPartitionedCall")
_Library = Mapping[str, function_pb2.FunctionDef]


class LiveValues:
  """Answers which arguments of a library's functions are needed."""

  def __init__(self, library: _Library):
    self._library = library
    self._found: dict[tuple[str, frozenset[int]], frozenset[int]] = {}

  def needed(self, function: str, results: Iterable[int]) -> frozenset[int]:
    """Returns the positions of the arguments that some results, or side effects, of a function need."""
    key = (function, frozenset(results))
    if key not in self._found:
      self._found[key] = self._search(self._library[function], key[1])
    return self._found[key]

  def _search(self, function: function_pb2.FunctionDef, results: frozenset[int]) -> frozenset[int]:
    nodes = {node.name: node for node in function.node_def}
    places = {argument.name: i for i, argument in enumerate(function.signature.input_arg)}
    outputs = function.signature.output_arg
    waiting = [function.ret[outputs[i].name] for i in results]
    for node in function.node_def:
      if self._has_effects(node):
        waiting.append(f"^{node.name}")
    seen: set[str] = set()
    while waiting:
      tensor = waiting.pop()
      if tensor in seen:
        continue
      seen.add(tensor)
      node = nodes.get(tensor.removeprefix("^").split(":")[0])
      if node is not None:
        waiting += self._sources(node, tensor)
    return frozenset(places[tensor] for tensor in seen if tensor in places)

  def _sources(self, node: node_def_pb2.NodeDef, tensor: str) -> list[str]:
    """Returns what a node needs to compute one of its outputs; all outputs if something waits for it."""
    if not self._is_call(node) or tensor.startswith("^"):
      return list(node.input)
    data = [name for name in node.input if not name.startswith("^")]
    waits = [name for name in node.input if name.startswith("^")]
    result = int(tensor.rpartition(":")[2])
    return [data[i] for i in self.needed(node.attr["f"].func.name, [result])] + waits

  def _has_effects(self, node: node_def_pb2.NodeDef) -> bool:
    if self._is_call(node):
      called = self._library[node.attr["f"].func.name]
      return any(map(self._has_effects, called.node_def))
    definition = op_def_registry.get(node.op)
    return definition is None or definition.is_stateful

  def _is_call(self, node: node_def_pb2.NodeDef) -> bool:
    return node.op in _CALLS and node.attr["f"].func.name in self._library
