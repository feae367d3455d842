"""Encodes what the head and the actors send to each other, and counts its bytes."""

import dataclasses
import pickle
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from tff_momentum.runtime.client_batches import ClientBatches, PackedBatches
from tff_momentum.runtime.references import DataLeaf, DataReference


@dataclasses.dataclass(frozen=True)
class DatasetGraph:
  """A data set by value: its graph, including the arrays that it reads."""

  serialized: bytes


@dataclasses.dataclass
class ShippedBytes:
  """The bytes that the clients' part of one computation sent.

  Attributes:
    shared: The message of each pass, counted once; it is sent once to each node.
    clients: The clients' own values: states, seeds, and data or references to data.
    results: The clients' results.
    functions: Functions that were not sent before; zero after the first round.
  """

  shared: int = 0
  clients: int = 0
  results: int = 0
  functions: int = 0

  @property
  def total(self) -> int:
    """The sum of all four."""
    return self.shared + self.clients + self.results + self.functions


def encode(leaf: Any) -> Any:
  """Converts a leaf (a tensor, or a client's data by value or by reference) to a form that can be pickled."""
  if isinstance(leaf, DataLeaf):
    if isinstance(leaf.data, DataReference):
      return leaf
    if leaf.signature is not None and isinstance(leaf.data, ClientBatches):
      return leaf.data.packed()
    leaf = leaf.tensor()
  if leaf.dtype == tf.variant:
    return DatasetGraph(tf.raw_ops.DatasetToGraphV2(input_dataset=leaf).numpy())
  return leaf.numpy()


def decode(item: Any) -> tf.Tensor:
  """Converts what `encode` returned to a tensor; a reference is resolved in this process."""
  if isinstance(item, DataLeaf):
    return item.tensor()
  if isinstance(item, PackedBatches):
    return item.leaf()
  if isinstance(item, DatasetGraph):
    return tf.raw_ops.DatasetFromGraph(graph_def=item.serialized)
  return tf.convert_to_tensor(item)


def count_bytes(items: Iterable[Any]) -> int:
  """Returns the number of bytes of encoded leaves."""
  return sum(map(_bytes, items))


def _bytes(item: Any) -> int:
  if isinstance(item, DatasetGraph):
    return len(item.serialized)
  if isinstance(item, (np.ndarray, np.generic)) and item.dtype != object:
    return item.nbytes
  return len(pickle.dumps(item))
