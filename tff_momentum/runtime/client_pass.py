"""The functions of a pass over the clients: one runs a chunk of clients, one merges partial aggregates.

The function of a chunk runs the clients' code and accumulates their results, block by block (see `blocks`).
It has two forms. Where all blocks have one client, it runs one client. Otherwise it loops over the clients of
one or more blocks inside the graph; a client's own values come from lists, and so do the results. The form
depends only on the size of the cohort, because the two may differ in bits.
"""

import functools
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf
from tensorflow.python.framework import func_graph as func_graph_lib

from tff_momentum.runtime import functions, lists, types
from tff_momentum.runtime.chunks import ChunkFunction, Layout
from tff_momentum.runtime.plan import (
  Aggregate,
  Node,
  evaluate,
  outer_inputs,
  read,
  sources_of,
  specs_of,
  unique,
)

# The number of partial aggregates that one call of the merging function adds, one after the other. The first
# of 64 blocks is the initial total; seven calls add the other 63.
MERGED_PER_CALL = 9
_INDEX = tf.TensorSpec([], tf.int32)
_LIST = tf.TensorSpec([], tf.variant)


class Merge:
  """Merges partial aggregates; `traced[k]` merges k of them into a total, in order.

  The functions are traced when they are first asked for, after the clients' functions.
  """

  def __init__(self, level: int, aggregates: Sequence[Aggregate]):
    self._level = level
    self.aggregates = list(aggregates)
    self.captured = unique(node for a in aggregates for node in a.merge_captured)

  @functools.cached_property
  def traced(self) -> dict[int, functions.FlatFunction]:
    """The traced functions, by the number of partial aggregates that they add."""
    return {k: self._trace(k) for k in (1, MERGED_PER_CALL)}

  def _trace(self, count: int) -> functions.FlatFunction:
    state_specs = specs_of(self.aggregates)

    def run(inputs: list[tf.Tensor]) -> list[tf.Tensor]:
      leaves = iter(inputs)
      extras = read(self.captured, leaves)
      states = read(self.aggregates, leaves)
      for _ in range(count):
        partials = read(self.aggregates, leaves)
        states = {
          a: a.merge(states[a], partials[a], *(extras[node] for node in a.merge_captured))
          for a in self.aggregates
        }
      return types.flatten(tuple(states.values()))

    specs = specs_of(self.captured) + state_specs * (1 + count)
    return functions.FlatFunction(f"merge_{self._level}_{count}", run, specs)


class ClientPass:
  """What happens between two server stages: the clients' work and its aggregation.

  Attributes:
    shared: The server's nodes that the clients and the accumulation read.
    own: The client's nodes that they read.
    kept: The client's nodes that a later pass or the caller needs.
    aggregates: The aggregates of this pass.
    merge: How partial aggregates are merged; None if there are no aggregates.
    partial_bytes: The size of the partial aggregates of a block, as far as their shapes are known.
  """

  def __init__(self, level: int, nodes: list[Node], aggregates: list[Aggregate], kept: list[Node]):
    self._level = level
    self._nodes = nodes
    self.aggregates = aggregates
    self.kept = kept
    values = [a.value for a in aggregates if a.value not in set(nodes)]
    inputs = unique([*outer_inputs(nodes), *values])
    self._constants = _constants(aggregates)
    zeros = [a.zero for a in aggregates if a.zero not in set(self._constants)]
    captured = [node for a in aggregates for node in a.captured]
    self.shared = unique([*(n for n in inputs if not n.at_clients), *zeros, *captured])
    self.own = [node for node in inputs if node.at_clients]
    self.merge = Merge(level, aggregates) if aggregates else None
    self._unchanged: list[int | None] = []  # known once a function is traced
    specs = [spec for spec in specs_of(aggregates) if spec.shape.is_fully_defined()]
    self.partial_bytes = sum(spec.shape.num_elements() * spec.dtype.size for spec in specs)

  def function(self, looped: bool) -> ChunkFunction:
    """Returns the function of a chunk, traced when it is first asked for."""
    return self._looped if looped else self._single

  @functools.cached_property
  def _single(self) -> ChunkFunction:
    def run(inputs: list[tf.Tensor]) -> list[tf.Tensor]:
      leaves = iter(inputs)
      shared, own = read(self.shared, leaves), read(self.own, leaves)
      state, kept = self._client(shared, own, self._zero(shared))
      return [*state, *self._changed(kept)]

    specs = [*specs_of(self.shared), *specs_of(self.own)]
    traced = functions.FlatFunction(f"client_{self._level}", run, specs)
    return self._chunk_function(traced, looped=False)

  @functools.cached_property
  def _looped(self) -> ChunkFunction:
    shared_specs, own_specs = specs_of(self.shared), specs_of(self.own)
    state_specs, kept_specs = specs_of(self.aggregates), specs_of(self.kept)

    def run(inputs: list[tf.Tensor]) -> list[tf.Tensor]:
      leaves = iter(inputs)
      shared = read(self.shared, leaves)
      ends, *own_lists = leaves

      def run_client(position, state, kept):
        own = [lists.get(l, position, s) for l, s in zip(own_lists, own_specs, strict=True)]
        new_state, new = self._client(shared, read(self.own, iter(own)), state)
        return position + 1, new_state, [*map(lists.append, kept, new)]

      def run_block(block, position, partials, kept):
        position, state, kept = _loop(
          lambda position, *_: position < ends[block],
          run_client,
          (position, self._zero(shared), kept),
          (_INDEX, state_specs, [_LIST] * len(kept)),
        )
        return block + 1, position, [*map(lists.append, partials, state)], kept

      empty = [[lists.empty(spec.dtype) for spec in each] for each in (state_specs, kept_specs)]
      start = tf.constant(0)
      _, _, partials, kept = _loop(
        lambda block, *_: block < tf.size(ends),
        run_block,
        (start, start, *empty),
        (_INDEX, _INDEX, *([_LIST] * len(each) for each in empty)),
      )
      return [*partials, *self._changed(kept)]

    specs = [*shared_specs, tf.TensorSpec([None], tf.int32), *[_LIST] * len(own_specs)]
    traced = functions.FlatFunction(f"clients_{self._level}", run, specs)
    return self._chunk_function(traced, looped=True)

  def _chunk_function(self, traced: functions.FlatFunction, looped: bool) -> ChunkFunction:
    partial = tuple(spec.dtype for spec in specs_of(self.aggregates))
    kept = tuple(spec.dtype for spec in self._changed(specs_of(self.kept)))
    layout, num_shared = Layout(looped, partial, kept), len(specs_of(self.shared))
    return ChunkFunction(traced, layout, num_shared, tuple(self._unchanged))

  def _changed(self, kept: list[Any]) -> list[Any]:
    """Returns those of the leaves to keep that a client does not just pass on."""
    return [leaf for leaf, own in zip(kept, self._unchanged, strict=True) if own is None]

  def _zero(self, shared: dict[Node, types.Value]) -> list[tf.Tensor]:
    """Returns the leaves of the aggregates' initial states."""
    values = evaluate(self._constants, shared)
    return [leaf for a in self.aggregates for leaf in types.flatten(values[a.zero])]

  def _client(
    self, shared: dict[Node, types.Value], own: dict[Node, types.Value], state: list[tf.Tensor]
  ) -> tuple[list[tf.Tensor], list[tf.Tensor]]:
    """Runs a client; returns the states of the aggregates after it, and the values to keep."""
    values = evaluate(self._nodes, {**shared, **_on_device(own)})
    states = read(self.aggregates, iter(state))
    added = {a.value: _with_known_shapes(values[a.value], a.value) for a in self.aggregates}
    states = {
      a: a.accumulate(states[a], added[a.value], *(shared[node] for node in a.captured))
      for a in self.aggregates
    }
    kept = [leaf for node in self.kept for leaf in types.flatten(values[node])]
    inputs = [leaf for node in self.own for leaf in types.flatten(own[node])]
    places = {id(tensor): place for place, tensor in enumerate(inputs)}
    self._unchanged = [places.get(id(_origin(leaf))) for leaf in kept]
    return types.flatten(tuple(states.values())), kept


def _on_device(own: dict[Node, types.Value]) -> dict[Node, types.Value]:
  """Copies a client's tensors, which come from the host, to its device; data sets stay on the host.

  TensorFlow puts a loop's variable on the device of the tensor that it starts from. A client's state would
  stay on the host, and every local step that reads it would copy it to the GPU.
  """

  def copied(leaf: tf.Tensor) -> tf.Tensor:
    return leaf if leaf.dtype in (tf.variant, tf.string) else tf.identity(leaf)

  return {
    node: types.unflatten(node.type_spec, iter(map(copied, types.flatten(value))))
    for node, value in own.items()
  }


def _origin(tensor: tf.Tensor) -> tf.Tensor:
  """Returns the tensor that `tensor` is a copy of, or `tensor` itself."""
  while tensor.op.type == "Identity":
    (tensor,) = tensor.op.inputs
  return tensor


def _with_known_shapes(value: types.Value, node: Node) -> types.Value:
  """Tells TensorFlow's optimizer the shapes of a value: only then it removes an addition of zeros."""
  leaves = zip(types.flatten(value), specs_of([node]), strict=True)
  known = [
    tf.ensure_shape(leaf, spec.shape) if spec.shape.is_fully_defined() and spec.shape.rank else leaf
    for leaf, spec in leaves
  ]
  return types.unflatten(node.type_spec, iter(known))


def _constants(aggregates: Sequence[Aggregate]) -> list[Node]:
  """Returns initial states that are the same in every call, and the nodes that they are computed from.

  They become part of the clients' function, where TensorFlow removes additions of zeros. Initial states that
  depend on the server's values, or on random numbers, are arguments.
  """
  found: dict[Node, None] = {}
  for aggregate in aggregates:
    nodes = _ancestors(aggregate.zero)
    if all(node.compute and not node.at_clients for node in nodes) and _is_pure(nodes):
      found.update(dict.fromkeys(nodes))
  return list(found)


def _ancestors(node: Node) -> list[Node]:
  """Returns the nodes that a node is computed from, each after its own sources, and the node itself."""
  return unique([*(found for source in sources_of(node) for found in _ancestors(source)), node])


def _is_pure(nodes: list[Node]) -> bool:
  with func_graph_lib.FuncGraph("constants").as_default() as graph:
    evaluate(nodes, {})
  return not any(operation.op_def.is_stateful for operation in graph.get_operations())


def _loop(
  condition: Callable[..., tf.Tensor], body: Callable[..., Any], start: Any, specs: Any
) -> Any:
  """Runs a loop, one iteration after the other; `start` and `specs` have the same structure."""
  shapes = tf.nest.map_structure(lambda spec: spec.shape, specs)

  def run(*variables: Any) -> Any:
    results = body(*variables)
    for tensor, spec in zip(tf.nest.flatten(results), tf.nest.flatten(specs), strict=True):
      tensor.set_shape(spec.shape)
    return results

  return tf.while_loop(condition, run, start, shapes, parallel_iterations=1)
