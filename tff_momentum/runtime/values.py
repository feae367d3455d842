"""Converts Python values to tensors and back, with the same types as TFF's own context."""

import collections
import functools
from collections.abc import Hashable, Iterator, Mapping, Sequence
from typing import Any

import attrs
import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.common_libs import py_typecheck
from tensorflow_federated.python.core.impl.executors import value_serialization
from tensorflow_federated.python.core.impl.types import type_conversions
from tensorflow_federated.python.core.impl.utils import tensorflow_utils

from tff_momentum.runtime import arrays, batch_rule, client_batches, types
from tff_momentum.runtime.batch_rule import BatchRule
from tff_momentum.runtime.client_batches import ClientBatches
from tff_momentum.runtime.references import DataLeaf, DataReference

# Arrays with at most this many elements are copied once more on their way to tensors.
_SMALL = 64


class Intake:
  """Converts the arguments of a computation to tensors.

  The clients' data are converted last, by `settle`, when it is known how the computation reads them.

  Attributes:
    sizes: The number of each client's examples, where it is known; else zeros.
  """

  def __init__(self, by_reference: bool = False) -> None:
    """With `by_reference`, the clients' data stay `DataLeaf`s, which other processes resolve."""
    self._by_reference = by_reference
    self.sizes: list[float] = []
    self._data: list[tuple[Any, bool, list, int]] = []  # data, by reference, and their place
    self._rules: set[BatchRule | None] = set()

  @property
  def rule(self) -> BatchRule | None:
    """The rule of the batches if all data so far are `ClientBatches` that share it; else None."""
    return next(iter(self._rules)) if len(self._rules) == 1 else None

  def leaves(self, value: Any, type_spec: tff.Type) -> list[tf.Tensor]:
    """Returns the tensors of `value`, checked against its type; `settle` fills in those of data."""
    leaves: list[tf.Tensor] = []
    self._append(value, type_spec, False, leaves)
    if self._by_reference and types.has_sequence(type_spec):
      self._rules.add(None)  # it may have to travel to the clients
    return leaves

  def client_leaves(self, clients: Sequence[Any], type_spec: tff.Type) -> list[list[tf.Tensor]]:
    """Returns the tensors of each client's value, as `leaves` does.

    It converts the same element of all clients at a time, which is faster than one client after the other.
    """
    rows: list[list[tf.Tensor]] = [[] for _ in clients]
    self._append_column(clients, type_spec, rows)
    return rows

  def _append_column(
    self, column: Sequence[Any], type_spec: tff.Type, rows: list[list[tf.Tensor]]
  ) -> None:
    if isinstance(type_spec, tff.TensorType):
      for row, tensor in zip(rows, _to_tensors(column, type_spec), strict=True):
        row.append(tensor)
    elif isinstance(type_spec, tff.StructType):
      elements = [elements_of(value, type_spec) for value in column]
      for i, inner in enumerate(type_spec):
        self._append_column([each[i] for each in elements], inner, rows)
    else:
      self.sizes = [float(getattr(value, "num_examples", 0)) for value in column]
      for value, row in zip(column, rows, strict=True):
        self._append(value, type_spec, self._by_reference, row)

  def settle(self, by_index: bool) -> None:
    """Fills in the data among all leaves, to be read by index or by iterators."""
    signature = self.rule.signature if by_index and self.rule is not None else None
    here = [data for data, away, _, _ in self._data if not away]
    made = iter(client_batches.leaves(here)) if by_index else None
    for data, away, leaves, place in self._data:
      if away:
        leaves[place] = DataLeaf(data, signature)
      else:
        leaves[place] = next(made) if made else _as_dataset(data)._variant_tensor

  def _append(self, value: Any, type_spec: tff.Type, away: bool, leaves: list[tf.Tensor]) -> None:
    if isinstance(type_spec, tff.TensorType):
      leaves.append(_to_tensor(value, type_spec))
    elif isinstance(type_spec, tff.SequenceType):
      if isinstance(value, DataReference) and away:
        self._rules.add(value.rule())
      else:
        value = _to_data(value, type_spec)
        self._rules.add(value.rule if isinstance(value, ClientBatches) else None)
      self._data.append((value, away, leaves, len(leaves)))
      leaves.append(None)
    elif isinstance(type_spec, tff.StructType):
      for element, element_type in zip(elements_of(value, type_spec), type_spec, strict=True):
        self._append(element, element_type, away, leaves)
    else:
      raise TypeError(f"Expected a value made of tensors and sequences, found {type_spec}.")


def _as_dataset(data: tf.data.Dataset | ClientBatches) -> tf.data.Dataset:
  return data.as_dataset() if isinstance(data, ClientBatches) else data


def elements_of(value: Any, type_spec: tff.StructType) -> list[Any]:
  """Returns the elements of a Python container in the order of `type_spec`.

  Raises:
    TypeError: The container has other elements than `type_spec`.
  """
  elements = _elements(value, type_spec)
  if len(elements) != len(type_spec):
    raise TypeError(
      f"Expected {len(type_spec)} elements for the type {type_spec}, found {len(elements)}."
    )
  return elements


def _elements(value: Any, type_spec: tff.StructType) -> list[Any]:
  if isinstance(value, (list, tuple)):
    return list(value)
  if isinstance(value, tff.structure.Struct):
    return [element for _, element in tff.structure.iter_elements(value)]
  if isinstance(value, Mapping):
    names = [name for name, _ in tff.structure.iter_elements(type_spec)]
    if set(names) == set(value):
      return [value[name] for name in names]
    if any(name is not None for name in names):
      raise TypeError(f"Expected the keys {names}, found {list(value)}.")
    return list(value.values())
  if attrs.has(type(value)):
    return [getattr(value, field.name) for field in attrs.fields(type(value))]
  struct = tff.structure.from_container(value, recursive=False)
  return [element for _, element in tff.structure.iter_elements(struct)]


def _to_tensor(value: Any, type_spec: tff.TensorType) -> tf.Tensor:
  dtype = tf.as_dtype(type_spec.dtype.type)
  if isinstance(value, tf.Variable):
    value = value.read_value()
  elif (viewed := arrays.tensor_of(value)) is not None:
    value = viewed
  if not isinstance(value, tf.Tensor):
    if _loses_precision(value, type_spec):
      raise TypeError(f"Expected a value of type {type_spec}, found dtype {value.dtype}.")
    if _is_out_of_range(value, type_spec):
      raise TypeError(
        f"Expected a value of type {type_spec}, found {value!r}, which is out of range."
      )
    try:
      value = tf.convert_to_tensor(value, dtype)
    except (TypeError, ValueError) as error:
      raise TypeError(f"Expected a value of type {type_spec}, found {value!r}.") from error
  if value.dtype != dtype or not value.shape.is_compatible_with(type_spec.shape):
    raise TypeError(
      f"Expected a value of type {type_spec}, found dtype {value.dtype.name} and shape {value.shape}."
    )
  return value


def _to_tensors(values: Sequence[Any], type_spec: tff.TensorType) -> Sequence[tf.Tensor]:
  """Converts one value for each client; small arrays become tensors by one operation for all clients."""
  if len(values) > 1 and all(
    type(value) is np.ndarray
    and value.dtype == type_spec.dtype
    and value.shape == values[0].shape
    and value.size <= _SMALL
    and not arrays.is_view(value)
    for value in values
  ):
    _to_tensor(values[0], type_spec)  # checks the type
    if values[0].dtype.kind in "biuf":
      with tf.device("/device:CPU:0"):
        return tf.unstack(tf.constant(np.stack(values)))
  return [_to_tensor(value, type_spec) for value in values]


def _loses_precision(value: Any, type_spec: tff.TensorType) -> bool:
  is_number = isinstance(value, (np.ndarray, np.generic)) and value.dtype.kind not in "USO"
  return is_number and not np.can_cast(value.dtype, type_spec.dtype, "safe")


def _is_out_of_range(value: Any, type_spec: tff.TensorType) -> bool:
  """Whether Python integers do not fit; TensorFlow would wrap them around."""
  if not isinstance(value, (int, list, tuple)) or not np.issubdtype(type_spec.dtype, np.integer):
    return False
  try:
    array = np.asarray(value)
  except ValueError:  # lists of different lengths, which TensorFlow reports
    return False
  limits = np.iinfo(type_spec.dtype)
  return array.dtype.kind in "iu" and bool(np.any((array < limits.min) | (array > limits.max)))


def _to_data(value: Any, type_spec: tff.SequenceType) -> tf.data.Dataset | ClientBatches:
  if isinstance(value, list):
    value = tensorflow_utils.make_data_set_from_elements(None, value, type_spec.element)
  if isinstance(value, DataReference):
    value = value.resolve()
  if not isinstance(value, (tf.data.Dataset, ClientBatches)):
    raise TypeError(
      f"Expected ClientBatches, a tf.data.Dataset or a list for the type {type_spec}, found "
      f"{type(value).__name__}."
    )
  if isinstance(value, ClientBatches):
    _check_rule(value.rule, type_spec)
  else:
    _check_element(value.element_spec, type_spec)
  return value


_accepted: dict[tuple[Hashable, int], tff.SequenceType] = {}


def _check_rule(rule: BatchRule, type_spec: tff.SequenceType) -> None:
  """Raises `TypeError` unless batches that follow `rule` are a `type_spec`; caches successes."""
  if _accepted.get((rule, id(type_spec))) is not type_spec:
    _check_element(rule.element_spec, type_spec)
    _accepted[rule, id(type_spec)] = type_spec


def _check_element(spec: Any, type_spec: tff.SequenceType) -> None:
  """Raises `TypeError` unless a data set with elements like `spec` is a `type_spec`; caches successes."""
  key = (batch_rule.hashable(spec), id(type_spec))
  if _accepted.get(key) is type_spec:
    return
  element_type = tff.types.tensorflow_to_type(spec)
  value_serialization._check_container_compat_with_tf_nest(element_type)
  if not type_spec.is_assignable_from(tff.SequenceType(element_type)):
    raise TypeError(f"Expected elements of type {type_spec.element}, found {element_type}.")
  if len(_accepted) > 1000:
    _accepted.clear()
  _accepted[key] = type_spec


def from_leaves(leaves: Iterator[tf.Tensor], type_spec: tff.Type) -> Any:
  """Builds the Python value of `type_spec`: NumPy arrays in its Python containers."""
  if isinstance(type_spec, tff.TensorType):
    return arrays.array_of(next(leaves))
  if isinstance(type_spec, tff.SequenceType):
    leaf = next(leaves)
    if isinstance(leaf, DataLeaf):
      return leaf.dataset()
    return tf.data.experimental.from_variant(leaf, types.element_structure(type_spec.element))
  assert isinstance(type_spec, tff.StructType)
  elements = [
    (name, from_leaves(leaves, inner)) for name, inner in tff.structure.iter_elements(type_spec)
  ]
  return in_container(elements, type_spec)


def in_container(elements: list[tuple[str | None, Any]], type_spec: tff.StructType) -> Any:
  """Puts named elements into the Python container of `type_spec`."""
  container = type_spec.python_container
  named = any(name is not None for name, _ in elements)
  if container is None:
    container = collections.OrderedDict if named else tuple
  if named and (_is_named_tuple(container) or attrs.has(container)):
    return container(**dict(elements))
  if named and issubclass(container, Mapping):
    return container(elements)
  if not named and issubclass(container, (list, tuple)):
    if _is_named_tuple(container):
      return container(*(value for _, value in elements))
    return container(value for _, value in elements)
  return type_conversions.type_to_py_container(tff.structure.Struct(elements), type_spec)


@functools.lru_cache(maxsize=1024)
def _is_named_tuple(container: type) -> bool:
  """A cached `isinstance`: a cohort's results have a container for each client, and protocols are slow."""
  return isinstance(container, py_typecheck.SupportsNamedTuple)
