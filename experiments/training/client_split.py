"""Holds out a fifth of each client's examples, for evaluating a model on clients' own data.

No task of this project has test data of each client, so `--client_eval_period` splits the clients' own
examples. The held-out ones never train. They are the same in every run of a task with the same clients,
whatever the algorithm and its hyperparameters.
"""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tasks.data.sources import evaluation_batch
from tasks.task import Task
from tff_momentum.runtime import ClientBatches
from tff_momentum.simulation import seeds

SHARE = 5  # one in five examples is held out
COUNTED_CLIENTS = 10_000  # of tasks with more clients, the number of training examples is estimated
_SEED = 41_213  # any number will do: it is fixed so that every run holds out the same examples
_BATCH = 256
_NO_SHUFFLING = np.zeros(2, np.int32)


class SplitTask(NamedTuple):
  """A task whose clients hold out examples.

  Attributes:
    task: the task without the held-out examples.
    held_out: client id -> the client's held-out examples, in a fixed order, prepared like test data.
  """

  task: Task
  held_out: Callable[[str], ClientBatches]


class Rows(NamedTuple):
  """Which of a client's examples train and which are held out."""

  train: np.ndarray
  held_out: np.ndarray


def rows(client: str, count: int) -> Rows:
  """Splits the numbers of a client's examples: a fifth, at least one, is held out; none of a single example.

  >>> train, held_out = rows("a", 10)
  >>> len(train), len(held_out), sorted([*train, *held_out]) == list(range(10))
  (8, 2, True)
  """
  held = max(1, count // SHARE) if count > 1 else 0
  seed = seeds.client_seed(_SEED, seeds.CLIENT_EVAL, 0, client).view(np.uint32)
  order = np.random.default_rng(seed).permutation(count)
  return Rows(np.sort(order[held:]), np.sort(order[:held]))


def hold_out(task: Task) -> SplitTask:
  """Holds out a fifth of each client's examples.

  Raises:
    ValueError: the task's clients bring data sets, whose examples cannot be told apart.
  """
  first = task.dataset(task.clients[0], _NO_SHUFFLING, 1)
  if not isinstance(first, ClientBatches):
    raise ValueError(
      "--client_eval_period holds out examples of each client and needs clients with ClientBatches; the task "
      f"{task.name} has {type(first).__name__}: return tff_momentum.ClientBatches from its dataset function."
    )

  def dataset(client: str, seed: np.ndarray, batch_size: int) -> ClientBatches:
    whole = _batches(task, client, seed, batch_size)
    return whole.select(rows(client, whole.num_examples).train)

  def held_out(client: str) -> ClientBatches:
    whole = _batches(task, client, _NO_SHUFFLING, _BATCH)
    chosen = rows(client, whole.num_examples).held_out
    if task.client_evaluation is None:  # `dataset` then has no random augmentation
      arrays = _arrays(task, whole.select(chosen))
    else:
      everything = _arrays(task, task.client_evaluation(client, _BATCH))
      arrays = tf.nest.map_structure(lambda array: array[chosen], everything)
    return ClientBatches(arrays, batch_size=evaluation_batch(task.model, _BATCH))

  return SplitTask(
    dataclasses.replace(
      task, dataset=dataset, total_examples=_training_examples(task), client_evaluation=None
    ),
    held_out,
  )


def _batches(task: Task, client: str, seed: np.ndarray, batch_size: int) -> ClientBatches:
  found = task.dataset(client, seed, batch_size)
  assert isinstance(found, ClientBatches), "all clients of a task bring the same kind of data"
  return found


def _arrays(task: Task, data: ClientBatches | tf.data.Dataset) -> object:
  """All batches together, in the structure of the model's batch; no rows if there is no batch."""
  specs = tf.nest.flatten(task.model.batch_spec)
  batches = [[part.numpy() for part in tf.nest.flatten(batch)] for batch in data]
  batches = batches or [[np.zeros([0, *s.shape[1:]], s.dtype.as_numpy_dtype) for s in specs]]
  joined = [np.concatenate(parts) for parts in zip(*batches, strict=True)]
  return tf.nest.pack_sequence_as(task.model.batch_spec, joined)


def _training_examples(task: Task) -> int:
  """The number of examples that train; about four fifths of all on tasks with very many clients."""
  if len(task.clients) > COUNTED_CLIENTS:
    return task.total_examples * (SHARE - 1) // SHARE
  sizes = (_batches(task, client, _NO_SHUFFLING, 1).num_examples for client in task.clients)
  return sum(size - (max(1, size // SHARE) if size > 1 else 0) for size in sizes)
