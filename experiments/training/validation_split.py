"""Holds out a part of the training clients, for choosing hyperparameters without looking at the test data.

The held-out clients never train. They are the same in every run of a task with the same number of clients,
whatever the algorithm, its hyperparameters and the seed of the run, so that all runs of a sweep are compared
on the same clients.
"""

import dataclasses
from collections.abc import Callable, Sequence
from typing import NamedTuple, overload

import numpy as np
import tensorflow as tf

from tasks.data.batches import ordered_batches
from tasks.data.sources import evaluation_batch
from tasks.task import Task
from tff_momentum.runtime import ClientBatches

SHARE = 5  # one in five clients is held out
# Enough for a standard error of half a point. Together they take at most this much memory.
MOST_EXAMPLES, MOST_BYTES = 20_000, 2**30
_SEED = 20_817  # any number will do: it is fixed so that every run holds out the same clients
_BATCH = 64


class Validation(NamedTuple):
  """The held-out clients.

  Attributes:
    clients: their ids.
    data: batch size -> their examples in batches, in a fixed order.
  """

  clients: list[str]
  data: Callable[[int], tf.data.Dataset]


class RemainingClients(Sequence[str]):
  """The ids of all clients but some, computed on demand: a task may have hundreds of thousands of clients.

  >>> list(RemainingClients(["a", "b", "c", "d", "e"], [3, 0]))
  ['b', 'c', 'e']
  """

  def __init__(self, clients: Sequence[str], without: Sequence[int]):
    """Takes all clients, and the positions of those to leave out."""
    self._clients = clients
    # The number of remaining clients before each of those that are left out.
    self._before = np.sort(np.asarray(without, np.int64)) - np.arange(len(without))

  def __len__(self) -> int:
    return len(self._clients) - len(self._before)

  @overload
  def __getitem__(self, index: int) -> str: ...
  @overload
  def __getitem__(self, index: slice) -> Sequence[str]: ...
  def __getitem__(self, index: int | slice) -> str | Sequence[str]:
    """Returns the id or ids at an index or slice."""
    chosen = range(len(self))[index]
    if isinstance(chosen, range):
      return [self[i] for i in chosen]
    return self._clients[chosen + int(np.searchsorted(self._before, chosen, side="right"))]


def hold_out(task: Task) -> tuple[Task, Validation]:
  """Takes a fifth of the clients out of a task, or as many as hold `MOST_EXAMPLES` examples.

  Returns:
    The task of the remaining clients, and the held-out clients.

  Raises:
    ValueError: the task has only one client, or the held-out clients have no examples.
  """
  count = len(task.clients)
  if count < 2:
    raise ValueError(
      f"--tune_on=validation holds out clients of {task.name} and needs at least 2; found {count}: use "
      "--tune_on=test."
    )
  wanted = np.random.default_rng(_SEED).permutation(count)[: max(1, count // SHARE)]
  positions: list[int] = []
  batches: list[list[np.ndarray]] = []  # each one as a flat list of arrays
  examples = size = 0
  for position in wanted.tolist():
    if examples >= MOST_EXAMPLES or size >= MOST_BYTES:
      break
    positions.append(position)
    for batch in _data(task, task.clients[position]):
      batches.append([part.numpy() for part in tf.nest.flatten(batch)])
      examples += len(batches[-1][0])
      size += sum(array.nbytes for array in batches[-1])
  if not examples:
    raise ValueError(
      f"--tune_on=validation needs held-out clients with data; found none among {len(positions)} of "
      f"{task.name}: use --tune_on=test."
    )
  arrays = tf.nest.pack_sequence_as(
    task.model.batch_spec, [np.concatenate(parts) for parts in zip(*batches, strict=True)]
  )
  remaining = dataclasses.replace(
    task,
    clients=RemainingClients(task.clients, positions),
    total_examples=task.total_examples - examples,
  )
  ids = [task.clients[position] for position in sorted(positions)]
  return remaining, Validation(
    ids, lambda size: ordered_batches(arrays, evaluation_batch(task.model, size))
  )


def _data(task: Task, client: str) -> ClientBatches | tf.data.Dataset:
  """A client's examples, prepared like test data."""
  if task.client_evaluation is not None:
    return task.client_evaluation(client, _BATCH)
  return task.dataset(client, np.zeros(2, np.int32), _BATCH)
