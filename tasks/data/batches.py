"""From arrays in memory to the batches of clients, which all share one set of tensors."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np
import tensorflow as tf

from tasks.task import Defaults, Task
from tff_momentum.models.model import Model
from tff_momentum.runtime import ClientBatches, Examples
from tff_momentum.runtime.batch_rule import Arrays, Preprocess


class NumberedIds(Sequence[str]):
  """The client ids "0", "1", …, computed on demand, so that a million clients take no memory."""

  def __init__(self, count: int):
    self._count = count

  def __len__(self) -> int:
    return self._count

  @overload
  def __getitem__(self, index: int) -> str: ...
  @overload
  def __getitem__(self, index: slice) -> Sequence[str]: ...
  def __getitem__(self, index: int | slice) -> str | Sequence[str]:
    """Returns the id or ids at an index or slice."""
    chosen = range(self._count)[index]
    return [str(i) for i in chosen] if isinstance(chosen, range) else str(chosen)

  def __contains__(self, client: object) -> bool:
    text = str(client)
    return text.isdecimal() and int(text) < self._count and str(int(text)) == text


def ordered_batches(
  arrays: Arrays, batch_size: int, preprocess: Callable[[Any], Any] | None = None
) -> tf.data.Dataset:
  """Returns test data in batches, in the order given.

  Args:
    arrays: the examples.
    batch_size: number of examples per batch.
    preprocess: batch -> batch.
  """
  data = tf.data.Dataset.from_tensor_slices(arrays).batch(batch_size)
  if preprocess is not None:
    data = data.map(lambda *parts: preprocess(parts if len(parts) > 1 else parts[0]))
  return data.prefetch(2)


@dataclasses.dataclass(frozen=True)
class ArrayClients:
  """Clients "0", "1", … over arrays in memory, grouped so that each client is one slice.

  Attributes:
    examples: the examples of all clients, one client after the other, and the preprocessing of a batch.
    bounds: client i holds the examples from bounds[i] to bounds[i + 1].

  >>> clients = ArrayClients.of(np.arange(10), [np.array([0, 1, 2]), np.array([7, 8])])
  >>> list(clients.ids), clients.total_examples
  (['0', '1'], 5)
  >>> [sorted(batch.numpy()) for batch in clients.dataset("1", np.array([0, 0]), batch_size=8)]
  [[7, 8]]
  """

  examples: Examples
  bounds: np.ndarray

  @classmethod
  def of(
    cls, arrays: Arrays, parts: Sequence[np.ndarray], preprocess: Preprocess | None = None
  ) -> "ArrayClients":
    """Groups arrays by client.

    Args:
      arrays: the examples of all clients, in any order.
      parts: for each client, the numbers of its examples.
      preprocess: (training batch, seed) -> batch.
    """
    order = np.concatenate(parts).astype(np.int64) if len(parts) else np.zeros([0], np.int64)
    grouped = tf.nest.map_structure(lambda a: np.asarray(a)[order], arrays)
    bounds = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    return cls(Examples(grouped, preprocess), bounds)

  @property
  def ids(self) -> NumberedIds:
    """The clients' ids."""
    return NumberedIds(len(self.bounds) - 1)

  @property
  def total_examples(self) -> int:
    """The number of examples of all clients together."""
    return int(self.bounds[-1])

  def dataset(self, client: str, seed: np.ndarray, batch_size: int) -> ClientBatches:
    """Returns a client's shuffled batches; see `Task.dataset`."""
    begin, end = self.bounds[int(client)], self.bounds[int(client) + 1]
    return ClientBatches(self.examples, batch_size=batch_size, seed=seed, begin=begin, end=end)

  def ordered(
    self, client: str, batch_size: int, preprocess: Callable[[Any], Any] | None = None
  ) -> tf.data.Dataset:
    """Returns a client's batches in a fixed order, prepared like test data by `preprocess`."""
    begin, end = self.bounds[int(client)], self.bounds[int(client) + 1]
    arrays = tf.nest.map_structure(lambda a: a[begin:end], self.examples.arrays)
    return ordered_batches(arrays, batch_size, preprocess)

  def task(
    self,
    name: str,
    model: Model,
    evaluation: Callable[[int], tf.data.Dataset],
    defaults: Defaults,
    details: Mapping[str, Any],
    data: str,
    client_evaluation: Callable[[str, int], tf.data.Dataset] | None = None,
  ) -> Task:
    """Returns the task of training on these clients; the arguments are those of `Task`."""
    return Task(
      name=name,
      model=model,
      clients=self.ids,
      dataset=self.dataset,
      evaluation=evaluation,
      total_examples=self.total_examples,
      defaults=defaults,
      data=data,
      details=details,
      client_evaluation=client_evaluation,
    )
