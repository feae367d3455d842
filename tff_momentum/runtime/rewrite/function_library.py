"""Prunes and renames a graph's function library, so that many graphs can be imported into one function."""

import collections
from collections.abc import Container, Iterable, Iterator, Mapping

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, node_def_pb2


def make_names_unique(graph_def: tf.compat.v1.GraphDef, suffix: str) -> None:
  """Drops the functions that the graph does not call and appends `suffix` to the names of the others.

  TensorFlow knows functions by name for the whole process, and different graphs use the same names for
  different functions. Functions also lose their device placements: they run where the client runs.
  """
  library = {function.signature.name: function for function in graph_def.library.function}
  gradient_of = {item.function_name: item.gradient_func for item in graph_def.library.gradient}
  needed: dict[str, None] = {}
  queue = collections.deque(called_functions(graph_def.node, library))
  while queue:
    name = queue.popleft()
    if name in needed:
      continue
    needed[name] = None
    queue.extend(called_functions(library[name].node_def, library))
    if name in gradient_of:
      queue.append(gradient_of[name])

  renamed = {name: f"{name}_{suffix}" for name in needed}
  kept = [library[name] for name in needed]
  _rename_calls(graph_def.node, renamed)
  for function in kept:
    function.signature.name = renamed[function.signature.name]
    _rename_calls(function.node_def, renamed)
    for node in function.node_def:
      node.device = ""
  del graph_def.library.function[:]
  graph_def.library.function.extend(kept)
  del graph_def.library.gradient[:]
  for name in needed:
    if name in gradient_of:
      graph_def.library.gradient.add(
        function_name=renamed[name], gradient_func=renamed[gradient_of[name]]
      )


def called_functions(
  nodes: Iterable[node_def_pb2.NodeDef], library: Container[str]
) -> Iterator[str]:
  """Yields the names of the functions of `library` that `nodes` call, in order."""
  for node in nodes:
    if node.op in library:
      yield node.op
    for function in _function_attributes(node):
      if function.name in library:
        yield function.name


def _function_attributes(node: node_def_pb2.NodeDef) -> Iterator[attr_value_pb2.NameAttrList]:
  for attribute in node.attr.values():
    if attribute.HasField("func"):
      yield attribute.func
    if attribute.HasField("list"):
      yield from attribute.list.func


def _rename_calls(nodes: Iterable[node_def_pb2.NodeDef], renamed: Mapping[str, str]) -> None:
  for node in nodes:
    node.op = renamed.get(node.op, node.op)
    for function in _function_attributes(node):
      function.name = renamed.get(function.name, function.name)
