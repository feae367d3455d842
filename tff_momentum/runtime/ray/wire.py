"""What travels between the head and the actors: arrays, data sets, references, and their bytes."""

import dataclasses
import pickle
from collections.abc import Iterable
from typing import Any

import numpy as np
import tensorflow as tf

from tff_momentum.runtime.references import DataReference


@dataclasses.dataclass(frozen=True)
class DatasetGraph:
  """A data set that has no reference: its graph, with the arrays that it reads."""

  serialized: bytes


@dataclasses.dataclass
class ShippedBytes:
  """What the clients' part of one computation sent over the wire.

  Attributes:
    shared: the message of each pass, counted once; it travels once to each node.
    clients: what was sent for single clients: states, seeds, and data or references to it.
    results: what the clients sent back.
    functions: stage functions that no actor knew before; nothing after the first round.
  """

  shared: int = 0
  clients: int = 0
  results: int = 0
  functions: int = 0

  @property
  def total(self) -> int:
    """All of them together."""
    return self.shared + self.clients + self.results + self.functions


def encode(leaf: Any) -> Any:
  """Returns a leaf (a tensor, a data set's variant, a reference) in a form that can travel."""
  if isinstance(leaf, DataReference):
    return leaf
  if leaf.dtype == tf.variant:
    return DatasetGraph(tf.raw_ops.DatasetToGraphV2(input_dataset=leaf).numpy())
  return leaf.numpy()


def decode(item: Any) -> tf.Tensor:
  """Returns the tensor that `encode` took apart; a reference becomes its data, read here."""
  if isinstance(item, DataReference):
    return item.resolve()._variant_tensor
  if isinstance(item, DatasetGraph):
    return tf.raw_ops.DatasetFromGraph(graph_def=item.serialized)
  return tf.convert_to_tensor(item)


def count_bytes(items: Iterable[Any]) -> int:
  """Returns the size of encoded leaves."""
  return sum(map(_bytes, items))


def _bytes(item: Any) -> int:
  if isinstance(item, DatasetGraph):
    return len(item.serialized)
  if isinstance(item, (np.ndarray, np.generic)) and item.dtype != object:
    return item.nbytes
  return len(pickle.dumps(item))
