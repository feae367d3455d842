"""Encodes what the head and the actors send to each other, and counts its bytes."""

import dataclasses
import pickle
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tff_momentum.runtime import arrays, client_batches
from tff_momentum.runtime.references import DataLeaf, DataReference

# Arrays of at most so many bytes travel together, because each array has a cost of its own.
_SMALL = 4096


@dataclasses.dataclass
class ShippedBytes:
  """The bytes that the clients' part of one computation sent.

  Attributes:
    shared: The message of each pass, counted once; it is sent once to each node.
    clients: The clients' own values: states, seeds, data sets, and references to data.
    results: The partial aggregates of the blocks, and the values of clients that come back one by one.
    functions: Functions that were not sent before; zero after the first round.
    examples: Arrays of `ClientBatches` by value that were not sent before; sent once to each node that needs
      them.
  """

  shared: int = 0
  clients: int = 0
  results: int = 0
  functions: int = 0
  examples: int = 0

  @property
  def total(self) -> int:
    """The sum of all."""
    return self.shared + self.clients + self.results + self.functions + self.examples


class PackedValue(NamedTuple):
  """A pickled value; `buffers` are its large arrays, which are not copied into the pickle."""

  content: bytes
  buffers: list[np.ndarray]

  @property
  def size(self) -> int:
    """The number of bytes."""
    return len(self.content) + sum(buffer.nbytes for buffer in self.buffers)


def pack(value: Any) -> PackedValue:
  """Pickles a value once, so that its size is known."""
  buffers: list[pickle.PickleBuffer] = []
  content = pickle.dumps(value, protocol=5, buffer_callback=buffers.append)
  return PackedValue(content, [np.frombuffer(buffer.raw(), np.uint8) for buffer in buffers])


def unpack(message: PackedValue) -> Any:
  """Returns the value that `pack` pickled; its large arrays are views of the message."""
  return pickle.loads(message.content, buffers=message.buffers)


@dataclasses.dataclass(frozen=True)
class DatasetGraph:
  """A data set by value: its graph, including the arrays that it reads."""

  serialized: bytes


class RowError(Exception):
  """A client's values cannot be decoded; `__cause__` says why.

  Attributes:
    row: The client's position.
  """

  def __init__(self, row: int):
    super().__init__(row)
    self.row = row


def encode(leaf: Any) -> Any:
  """Converts a leaf (a tensor, or a client's data by value or by reference) to a form that can be pickled."""
  if isinstance(leaf, DataLeaf):
    if isinstance(leaf.data, DataReference):
      return leaf
    leaf = leaf.dataset()._variant_tensor
  if leaf.dtype == tf.variant:
    return DatasetGraph(tf.raw_ops.DatasetToGraphV2(input_dataset=leaf).numpy())
  return arrays.array_of(leaf)


def decode(item: Any, share: bool = False) -> tf.Tensor:
  """Converts what `encode` returned to a tensor; a reference is resolved in this process.

  Args:
    item: What `encode` returned.
    share: Whether the tensor may share the memory of the object store, for values that are soon forgotten.
  """
  if isinstance(item, DataLeaf):
    return item.tensor()
  if isinstance(item, DatasetGraph):
    return tf.raw_ops.DatasetFromGraph(graph_def=item.serialized)
  if share and isinstance(item, np.ndarray):
    return arrays.shared_tensor(item)
  return tf.convert_to_tensor(item)


def encode_column(leaves: Sequence[Any]) -> Any:
  """Encodes the same leaf of many clients or blocks; small arrays of one shape become one array."""
  items = [encode(leaf) for leaf in leaves]
  first = items[0]
  if not isinstance(first, (np.ndarray, np.generic)) or first.dtype == object:
    return items
  if first.nbytes > _SMALL or any(item.shape != first.shape for item in items):
    return items
  return np.stack(items)


def decode_column(column: Any, share: bool = False) -> list[tf.Tensor]:
  """Returns the tensors that `encode_column` encoded; see `decode`.

  Raises:
    RowError: A leaf cannot be decoded, for example because a client's data cannot be read.
  """
  if isinstance(column, np.ndarray):
    return tf.unstack(tf.convert_to_tensor(column))
  by_index = isinstance(column[0], DataLeaf) and column[0].signature is not None
  items: list[Any] = []
  for item in column:
    try:
      items.append(item.batches() if by_index else decode(item, share))
    except Exception as error:  # also those of the user's own loader
      raise RowError(len(items)) from error
  return client_batches.leaves(items) if by_index else items


def encode_rows(rows: Sequence[Sequence[Any]]) -> list[Any]:
  """Encodes rows of leaves column by column."""
  return [encode_column(column) for column in zip(*rows, strict=True)]


def decode_rows(columns: Sequence[Any], count: int, share: bool = False) -> list[list[tf.Tensor]]:
  """Returns the `count` rows that `encode_rows` encoded; see `decode`."""
  return rows_of([decode_column(column, share) for column in columns], count)


def rows_of(columns: Sequence[Sequence[tf.Tensor]], count: int) -> list[list[tf.Tensor]]:
  """Returns the `count` rows of some columns, of which there may be none."""
  return [list(row) for row in zip(*columns, strict=True)] if columns else [[]] * count
