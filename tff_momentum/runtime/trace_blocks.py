"""Runs local (unplaced) building blocks while a TensorFlow function is being traced.

Values are nested tuples of symbolic tensors (see `types`), and functions are Python callables. All calls
become parts of one TensorFlow function.
"""

from collections.abc import Callable, Mapping
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.compiler import building_blocks as blocks

from tff_momentum.runtime import types
from tff_momentum.runtime.rewrite import options, prepared_graphs

Environment = Mapping[str, Any]


def evaluate(block: blocks.ComputationBuildingBlock, environment: Environment) -> Any:
  """Returns the value of `block`, whose free names are bound in `environment`."""
  if isinstance(block, blocks.Reference):
    return environment[block.name]
  if isinstance(block, blocks.Selection):
    return evaluate(block.source, environment)[block.as_index()]
  if isinstance(block, blocks.Struct):
    return tuple(evaluate(element, environment) for element in block)
  if isinstance(block, blocks.Call):
    function = evaluate(block.function, environment)
    return function(None if block.argument is None else evaluate(block.argument, environment))
  if isinstance(block, blocks.Lambda):
    return lambda argument: evaluate(block.result, {**environment, block.parameter_name: argument})
  if isinstance(block, blocks.Block):
    inner = dict(environment)
    for name, value in block.locals:
      inner[name] = evaluate(value, inner)
    return evaluate(block.result, inner)
  if isinstance(block, blocks.CompiledComputation):
    return tensorflow_callable(block)
  if isinstance(block, blocks.Literal):
    return literal(block)
  if isinstance(block, blocks.Intrinsic):
    return _intrinsic(block)
  raise NotImplementedError(
    "Expected a block made of tensors, sequences, structs and functions of them, found "
    f"{block.compact_representation()}."
  )


def tensorflow_callable(
  block: blocks.CompiledComputation,
) -> Callable[[types.Value | None], types.Value]:
  """Returns a function that adds the TensorFlow computation `block` to the graph being traced."""
  prepared = prepared_graphs.prepare(block.proto)
  result_type = block.type_signature.result

  def call(argument):
    leaves = [] if argument is None else types.flatten(argument)
    return types.unflatten(result_type, iter(prepared(leaves)))

  return call


def literal(block: blocks.Literal) -> tf.Tensor:
  """Returns the constant tensor of a literal."""
  type_spec = block.type_signature
  return tf.constant(block.value, tf.as_dtype(type_spec.dtype.type), type_spec.shape)


def _intrinsic(block: blocks.Intrinsic) -> Any:
  if block.uri == "generic_zero":
    return _zeros(block.type_signature)
  if block.uri not in _SEQUENCE_INTRINSICS:
    raise NotImplementedError(
      f"Expected a local computation, found the intrinsic {block.uri!r}; apply it to a federated value."
    )
  run = _SEQUENCE_INTRINSICS[block.uri]
  return lambda argument: run(block.type_signature, argument)


def _dataset(variant: tf.Tensor, element_type: tff.Type) -> tf.data.Dataset:
  options.require_iterators()
  structure = types.element_structure(element_type)
  return tf.data.experimental.from_variant(variant, structure)


def _as_tuples(element: Any, element_type: tff.Type) -> types.Value:
  """Converts an element of a data set (ordered dictionaries and tuples) to nested tuples."""
  if not isinstance(element_type, tff.StructType):
    return element
  parts = list(tff.structure.iter_elements(element_type))
  if isinstance(element, Mapping):
    return tuple(_as_tuples(element[name], inner) for name, inner in parts)
  return tuple(_as_tuples(value, inner) for value, (_, inner) in zip(element, parts, strict=True))


def _map_dataset(
  dataset: tf.data.Dataset, element_type: tff.Type, result_type: tff.Type, function: Callable
) -> tf.data.Dataset:
  """Maps `function`, from nested tuples to nested tuples, over a data set with elements of `element_type`."""

  def on_element(*element):
    packed = element[0] if len(element) == 1 and not _is_plain_tuple(element_type) else element
    return to_element(function(_as_tuples(packed, element_type)), result_type)

  return dataset.map(on_element)


def to_element(value: types.Value, type_spec: tff.Type) -> Any:
  """Converts nested tuples to an element of a data set (ordered dictionaries and tuples)."""
  structure = types.element_structure(type_spec)
  return tf.nest.pack_sequence_as(structure, _in_nest_order(value, type_spec))


def _is_plain_tuple(type_spec: tff.Type) -> bool:
  return isinstance(type_spec, tff.StructType) and not any(
    name for name, _ in tff.structure.iter_elements(type_spec)
  )


def _in_nest_order(value: types.Value, type_spec: tff.Type) -> list[tf.Tensor]:
  """Flattens nested tuples in the order in which `tf.nest` flattens the element: by sorted keys."""
  if not isinstance(type_spec, tff.StructType):
    return [value]
  parts = [
    (name, _in_nest_order(element, element_type))
    for element, (name, element_type) in zip(
      value, tff.structure.iter_elements(type_spec), strict=True
    )
  ]
  if parts and parts[0][0] is not None:
    parts.sort(key=lambda part: part[0])
  return [leaf for _, leaves in parts for leaf in leaves]


def _sequence_map(function_type: tff.FunctionType, argument: Any) -> tf.Tensor:
  function, variant = argument
  element_type = function_type.parameter[1].element
  dataset = _dataset(variant, element_type)
  mapped = _map_dataset(dataset, element_type, function_type.result.element, function)
  return tf.data.experimental.to_variant(mapped)


def _sequence_reduce(function_type: tff.FunctionType, argument: Any) -> types.Value:
  variant, zero, operator = argument
  element_type, state_type = function_type.parameter[0].element, function_type.result

  def step(state, element):
    packed = types.unflatten(state_type, iter(state))
    return tuple(types.flatten(operator((packed, _as_tuples(element, element_type)))))

  final = _dataset(variant, element_type).reduce(tuple(types.flatten(zero)), step)
  return types.unflatten(state_type, iter(final))


def _sequence_sum(function_type: tff.FunctionType, variant: tf.Tensor) -> types.Value:
  def add(pair):
    leaves = zip(types.flatten(pair[0]), types.flatten(pair[1]), strict=True)
    return types.unflatten(function_type.result, iter([a + b for a, b in leaves]))

  reduce_type = tff.FunctionType([function_type.parameter], function_type.result)
  return _sequence_reduce(reduce_type, (variant, _zeros(function_type.result), add))


def _zeros(type_spec: tff.Type) -> types.Value:
  leaves = [tf.zeros(spec.shape, spec.dtype) for spec in types.flat_specs(type_spec)]
  return types.unflatten(type_spec, iter(leaves))


_SEQUENCE_INTRINSICS = {
  "sequence_map": _sequence_map,
  "sequence_reduce": _sequence_reduce,
  "sequence_sum": _sequence_sum,
}
