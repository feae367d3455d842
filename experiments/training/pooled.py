"""The data of `--algo=centralised`: all clients' examples in one place, in an endless stream of epochs.

    stream = order of epoch 0, order of epoch 1, …;   step s trains on examples s·B to (s + 1)·B of the stream

A round takes as many steps as a cohort of average clients takes together, S·K, so a run of centralised
training computes as many gradients as a federated run. In Keras' words: `data.shuffle(n).repeat().batch(B)`
and `model.fit(data, epochs=total_rounds, steps_per_epoch=S·K)`. "Client" t of the pooled task holds the
batches of round t. The order within a round comes from the round's own seed.
"""

import dataclasses

import numpy as np
import tensorflow as tf

from experiments.cli.run_config import RunConfig
from tasks.data.batches import NumberedIds
from tasks.task import Task
from tff_momentum.runtime import ClientBatches, Examples
from tff_momentum.runtime.batch_rule import Preprocess
from tff_momentum.simulation import seeds
from tff_momentum.simulation.participation import Cohort

MOST_BYTES = 2**32  # of all examples together, as they are kept in memory
_NO_SHUFFLING = np.zeros(2, np.int32)


def pooled(task: Task, config: RunConfig) -> Task:
  """The task with one client for each round.

  Raises:
    ValueError: the examples of all clients together do not fit in memory.
  """
  examples, preprocess = _pool(task)
  count = examples.size
  assert config.steps_per_round is not None, "centralised training has a number of steps per round"
  steps, seed = config.steps_per_round, config.seed

  def dataset(client: str, client_seed: np.ndarray, batch_size: int) -> ClientBatches:
    per_round = steps * batch_size
    rows = stream(count, int(client) * per_round, per_round, seed)
    with tf.device("/device:CPU:0"):
      chosen = [tf.gather(tensor, rows) for tensor in examples.tensors]
    arrays = tf.nest.pack_sequence_as(examples.arrays, chosen)
    return ClientBatches(Examples(arrays, preprocess), batch_size=batch_size, seed=client_seed)

  return dataclasses.replace(
    task, clients=NumberedIds(config.total_rounds), dataset=dataset, total_examples=count
  )


def participation(round_number: int) -> Cohort:
  """The one client of each round."""
  return Cohort([round_number])


def stream(count: int, start: int, length: int, seed: int) -> np.ndarray:
  """A part of the endless stream of epochs over `count` examples, each in a random order of its own.

  >>> stream(4, 0, 4, seed=1).tolist() != stream(4, 4, 4, seed=1).tolist()
  True
  >>> sorted(stream(4, 2, 8, seed=1).tolist()[2:6])  # the second epoch
  [0, 1, 2, 3]
  """
  first, last = start // count, (start + length - 1) // count
  orders = [
    seeds.generator(seed, seeds.POOL, epoch).permutation(count) for epoch in range(first, last + 1)
  ]
  offset = start - first * count
  return np.concatenate(orders)[offset : offset + length]


def _pool(task: Task) -> tuple[Examples, Preprocess | None]:
  """The examples of all clients, and the preprocessing of their batches."""
  parts: list[list[np.ndarray]] = []
  size, structure, preprocess = 0, None, None
  for position, client in enumerate(task.clients):
    data = task.dataset(client, _NO_SHUFFLING, 64)
    if isinstance(data, ClientBatches):
      own = [data.own_arrays()]
      structure, preprocess = data.examples.arrays, data.rule.preprocess
    else:  # a task of the user's own
      own = [[part.numpy() for part in tf.nest.flatten(batch)] for batch in data]
      structure = task.model.batch_spec
    parts += own
    size += sum(array.nbytes for arrays in own for array in arrays)
    if size > MOST_BYTES:
      raise ValueError(
        f"--algo=centralised keeps the examples of all clients in memory, at most {MOST_BYTES // 2**30} GiB; "
        f"found more in the first {position + 1} of {len(task.clients)} clients of {task.name}: use "
        "--num_clients or --max_examples_per_client."
      )
  if not parts:
    raise ValueError(f"--algo=centralised needs clients with data; found none in {task.name}.")
  joined = [np.concatenate(arrays) for arrays in zip(*parts, strict=True)]
  return Examples(tf.nest.pack_sequence_as(structure, joined)), preprocess
