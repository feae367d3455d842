"""A client's batches: arrays in memory and the rule by which batches follow from them.

A client that trains on `ClientBatches` gathers each batch from the arrays by index, where it trains. It needs
no iterator, which would cost a thread switch per batch, and no copy of its examples: all clients of a task
may share one set of arrays. The same batches are available as a `tf.data.Dataset`.
"""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tff_momentum.runtime import batch_rule
from tff_momentum.runtime.arrays import array_of
from tff_momentum.runtime.batch_rule import CPU, Arrays, BatchRule, Preprocess

ENDLESS = np.iinfo(np.int64).max
_LOW = 2**32 - 1


class Examples:
  """Arrays of examples as tensors, converted once and shared by the batches of many clients and rounds.

  Attributes:
    arrays: The structure of tensors.
    tensors: The tensors, in the order of `tf.nest.flatten`.
    size: The number of examples.

  >>> import numpy as np
  >>> from tff_momentum.runtime.client_batches import ClientBatches, Examples
  >>> all_clients = Examples((np.zeros([100, 2], np.float32), np.arange(100)))
  >>> first = ClientBatches(all_clients, batch_size=8, begin=0, end=20)
  >>> first.num_examples, all_clients.size
  (20, 100)
  """

  def __init__(self, arrays: Arrays, preprocess: Preprocess | None = None):
    """Converts the arrays; see `ClientBatches`.

    Raises:
      ValueError: There is no array, or the arrays have different numbers of examples.
    """
    with tf.device(CPU):
      tensors = tf.nest.map_structure(tf.convert_to_tensor, arrays)
    self.tensors: list[tf.Tensor] = tf.nest.flatten(tensors)
    sizes = [len(t) if t.shape.rank else None for t in self.tensors]
    if not sizes or sizes[0] is None or len(set(sizes)) > 1:
      found = ", ".join(str(t.shape) for t in self.tensors) or "none"
      raise ValueError(
        f"Expected arrays with the same number of examples in their first dimension; found {found}."
      )
    self.size: int = sizes[0]
    self.arrays, self._preprocess = tensors, preprocess
    self._rules: dict[tuple[bool, int | None], BatchRule] = {}

  def rule(self, shuffled: bool, static_size: int | None = None) -> BatchRule:
    """Returns the rule of batches over these arrays; `static_size` is the size if all batches have it."""
    rule = self._rules.get((shuffled, static_size))
    if rule is None:
      spec = tf.nest.map_structure(
        lambda t: tf.TensorSpec([static_size, *t.shape[1:]], t.dtype), self.arrays
      )
      rule = batch_rule.rule_of(spec, self._preprocess, shuffled)
      self._rules[shuffled, static_size] = rule
    return rule


class ClientBatches:
  """The batches of one client in one round; TFF computations take it instead of a `tf.data.Dataset`.

  >>> import numpy as np, tff_momentum as tfm
  >>> x, y = np.zeros([5, 2], np.float32), np.arange(5)
  >>> batches = tfm.ClientBatches((x, y), batch_size=2)
  >>> [labels.numpy().tolist() for _, labels in batches]
  [[0, 1], [2, 3], [4]]
  >>> shuffled = tfm.ClientBatches((x, y), batch_size=2, seed=(3, 7))
  >>> [labels.numpy().tolist() for _, labels in shuffled.as_dataset().repeat(2)]
  [[4, 1], [2, 3], [0], [2, 1], [4, 3], [0]]

  Attributes:
    examples: The arrays.
    rule: What the batches have in common with those of the task's other clients.
    num_examples: The number of the client's examples.
  """

  __slots__ = ("_begin", "_key", "_size", "examples", "num_examples", "rule")

  def __init__(
    self,
    arrays: Arrays | Examples,
    *,
    batch_size: int,
    seed: Sequence[int] | np.ndarray | None = None,
    begin: int = 0,
    end: int | None = None,
    drop_remainder: bool = False,
    preprocess: Preprocess | None = None,
  ):
    """Describes the batches; reads and copies nothing if `arrays` are `Examples`.

    Args:
      arrays: A structure (tuple, dictionary, ...) of arrays or tensors whose first dimension counts the
        examples, or `Examples`, which clients and rounds share.
      batch_size: The number of examples in a batch.
      seed: Two 32-bit integers. They and the number of the epoch determine the order of the examples. None
        keeps the given order in every epoch.
      begin: The client's first example.
      end: The example after the client's last one; None stands for the end of the arrays.
      drop_remainder: Whether to leave out the last batch of an epoch if it is smaller than the others.
      preprocess: (batch, seed int64[2]) -> batch, a TensorFlow function. It runs where the client trains,
        with its own seed for each batch. All clients must share one function, not a function each: it
        becomes a part of the client's graph, which is traced once per function. A function that does not
        use its seed must treat each example by itself: full gradients may join batches.

    Raises:
      ValueError: The batch size or the range of examples is invalid, the arrays differ in length, or
        `preprocess` is given with `Examples`, which have their own.
    """
    if not isinstance(arrays, Examples):
      arrays = Examples(arrays, preprocess)
    elif preprocess is not None:
      raise ValueError(
        "Expected no preprocess beside Examples; found one: give it to Examples(arrays, preprocess)."
      )
    end = arrays.size if end is None else int(end)
    if not 0 <= begin <= end <= arrays.size:
      raise ValueError(
        f"Expected 0 <= begin <= end <= {arrays.size}, the number of examples; found begin={begin}, "
        f"end={end}."
      )
    if batch_size < 1:
      raise ValueError(f"Expected a batch_size of at least 1; found {batch_size}.")
    self.examples, self._begin, self._size = arrays, int(begin), int(batch_size)
    self.num_examples: int = end - self._begin
    self.rule = arrays.rule(seed is not None, self._size if drop_remainder else None)
    self._key = 0
    if seed is not None:
      first, second = seed
      self._key = (int(first) & _LOW) | (int(second) & _LOW) << 32

  def __repr__(self) -> str:
    return (
      f"ClientBatches({self.num_examples} examples in {self.cardinality()} batches of "
      f"{self.element_spec})"
    )

  @property
  def element_spec(self) -> Any:
    """The specs of a batch, as `tf.data.Dataset.element_spec`."""
    return self.rule.element_spec

  def cardinality(self) -> int:
    """Returns the number of batches in an epoch."""
    dropped = self.rule.specs[0].shape[0] is not None
    return self.num_examples // self._size if dropped else -(-self.num_examples // self._size)

  def as_dataset(self) -> tf.data.Dataset:
    """Returns the same batches as a `tf.data.Dataset`, with a copy of the client's examples.

    Each iteration over the data set, also by `repeat`, is the next epoch.
    """
    begin, end = self._begin, self._begin + self.num_examples
    with tf.device(CPU):
      arrays = [tensor[begin:end] for tensor in self.examples.tensors]
      key = np.array([self._key], np.uint64)
      numbers = (self.num_examples, self._size, self.cardinality())
      return self.rule.pipeline(arrays, key, *map(np.int64, numbers))

  def __iter__(self) -> Iterator[Any]:
    """Iterates over the batches of the first epoch."""
    return iter(self.as_dataset())

  @property
  def begin(self) -> int:
    """The client's first example in the arrays."""
    return self._begin

  def select(self, rows: Sequence[int] | np.ndarray) -> "ClientBatches":
    """Returns the batches of some of the client's examples, with the same rule and seed, on a copy of them.

    Args:
      rows: Numbers of the examples, from 0 to `num_examples` − 1.

    >>> import numpy as np, tff_momentum as tfm
    >>> batches = tfm.ClientBatches(np.arange(10), batch_size=2, begin=5)
    >>> [batch.numpy().tolist() for batch in batches.select([0, 2, 4])]
    [[5, 7], [9]]
    """
    index = self._begin + np.asarray(rows, np.int64)
    with tf.device(CPU):
      chosen = [tf.gather(tensor, index) for tensor in self.examples.tensors]
    return ClientBatches(
      Examples(tf.nest.pack_sequence_as(self.examples.arrays, chosen), self.rule.preprocess),
      batch_size=self._size,
      seed=(self._key & _LOW, self._key >> 32) if self.rule.shuffled else None,
      drop_remainder=self.rule.specs[0].shape[0] is not None,
    )

  def own_arrays(self) -> list[np.ndarray]:
    """Returns the client's examples, which another process needs to train on these batches."""
    begin, end = self._begin, self._begin + self.num_examples
    return [np.asarray(array_of(tensor))[begin:end] for tensor in self.examples.tensors]

  def numbers(self, begin: int) -> list[int]:
    """Returns the first component of a leaf, for arrays in which the client's first example is `begin`.

    `rewrite/batch_reader.py` reads it.
    """
    batches, key = self.cardinality(), self._key - (self._key >> 63 << 64)
    return [begin, self.num_examples, self._size, key, batches, batches, ENDLESS, 0, 0]


def leaves(clients: Sequence[ClientBatches]) -> list[tf.Tensor]:
  """Returns the batches of each client as one variant tensor, which holds its numbers and the shared arrays.

  An `Optional` is the only variant that holds tensors of several types. A leaf takes 10 microseconds.
  """
  table = np.array([each.numbers(each._begin) for each in clients], np.int64)
  return leaves_of(table, [each.examples.tensors for each in clients])


def leaves_of(numbers: np.ndarray, examples: Sequence[Sequence[tf.Tensor]]) -> list[tf.Tensor]:
  """Returns the same for clients with these numbers, one row each, and arrays."""
  if not examples:
    return []
  with tf.device(CPU):
    rows = tf.unstack(tf.constant(numbers))
    return [
      tf.raw_ops.OptionalFromValue(components=[row, *tensors])
      for row, tensors in zip(rows, examples, strict=True)
    ]
