"""How a value of a TFF type is laid out inside the runtime.

A tensor is a `tf.Tensor`, a sequence is the variant tensor of its `tf.data.Dataset` (or of a list of
its batches, see `lists`), a struct is a plain tuple in the order of its type. A value is therefore a
nest of tuples whose leaves are tensors, and can be flattened without looking at names or containers.
"""

import collections
from collections.abc import Iterator
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.core.impl.types import type_conversions, type_transformations


def member_of(type_spec: tff.Type) -> tff.Type:
  """Returns what one placed participant holds: the member of a federated type, or the type itself."""
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
  """Whether there is a sequence among the leaves."""
  if isinstance(type_spec, tff.StructType):
    return any(map(has_sequence, type_spec))
  if isinstance(type_spec, tff.FederatedType):
    return has_sequence(type_spec.member)
  return isinstance(type_spec, tff.SequenceType)


def flatten(value: Any) -> list[tf.Tensor]:
  """Returns the leaves of a nest of tuples, in order."""
  if isinstance(value, tuple):
    return [leaf for element in value for leaf in flatten(element)]
  return [value]


def unflatten(type_spec: tff.Type, leaves: Iterator[Any]) -> Any:
  """Builds the nest of tuples of `type_spec`, taking its leaves from the iterator `leaves`."""
  if isinstance(type_spec, tff.StructType):
    return tuple(unflatten(element, leaves) for element in type_spec)
  return next(leaves)


def element_structure(type_spec: tff.Type) -> Any:
  """Returns the `tf.data` element structure of a sequence's element type.

  Named structs become `OrderedDict`s and unnamed ones tuples, whatever their Python container was,
  which is also how TFF hands data sets to its TensorFlow computations.
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
