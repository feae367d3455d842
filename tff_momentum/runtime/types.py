"""How the runtime represents values of TFF types.

A tensor is a `tf.Tensor`. A sequence is one variant tensor, that of its `tf.data.Dataset` or of its
`ClientBatches`. A struct is a plain tuple in the order of its type. So a value is nested tuples of tensors,
which can be flattened without its names and Python containers.
"""

import collections
from collections.abc import Iterator
from typing import Any, TypeAlias

import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.types import type_conversions, type_transformations

Value: TypeAlias = tf.Tensor | tuple["Value", ...]


def member_of(type_spec: tff.Type) -> tff.Type:
  """Returns the type of one participant's value: the member of a federated type, or the type itself."""
  return type_spec.member if isinstance(type_spec, tff.FederatedType) else type_spec


def flat_specs(type_spec: tff.Type) -> list[tf.TensorSpec]:
  """Returns one `tf.TensorSpec` for each leaf of `type_spec`, in order."""
  if isinstance(type_spec, tff.TensorType):
    return [tf.TensorSpec(type_spec.shape, tf.as_dtype(type_spec.dtype.type))]
  if isinstance(type_spec, tff.SequenceType):
    return [tf.TensorSpec([], tf.variant)]
  if isinstance(type_spec, tff.StructType):
    return [spec for element in type_spec for spec in flat_specs(element)]
  raise TypeError(f"Expected a type made of tensors, sequences and structs, found {type_spec}.")


def has_sequence(type_spec: tff.Type) -> bool:
  """Whether some leaf is a sequence."""
  if isinstance(type_spec, tff.StructType):
    return any(map(has_sequence, type_spec))
  if isinstance(type_spec, tff.FederatedType):
    return has_sequence(type_spec.member)
  return isinstance(type_spec, tff.SequenceType)


def flatten(value: Value) -> list[tf.Tensor]:
  """Returns the leaves of a value, in order."""
  if isinstance(value, tuple):
    return [leaf for element in value for leaf in flatten(element)]
  return [value]


def unflatten(type_spec: tff.Type, leaves: Iterator[tf.Tensor]) -> Value:
  """Builds a value of `type_spec`, taking its leaves from the iterator `leaves`."""
  if isinstance(type_spec, tff.StructType):
    return tuple(unflatten(element, leaves) for element in type_spec)
  return next(leaves)


def element_structure(type_spec: tff.Type) -> Any:
  """Returns the `tf.data` element structure of a sequence's element type.

  Named structs become `OrderedDict`s and unnamed ones tuples, regardless of their Python container. TFF
  passes data sets to its TensorFlow computations in the same form.
  """

  def to_standard_container(inner: tff.Type) -> tuple[tff.Type, bool]:
    if not isinstance(inner, tff.StructType):
      return inner, False
    elements = list(tff.structure.iter_elements(inner))
    named = bool(elements) and elements[0][0] is not None
    container = collections.OrderedDict if named else tuple
    return tff.types.StructWithPythonType(elements, container), True

  standard, _ = type_transformations.transform_type_postorder(type_spec, to_standard_container)
  return type_conversions.type_to_tf_structure(standard)
