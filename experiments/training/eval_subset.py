"""Evaluates on a part of the test data, the same part every time."""

import dataclasses
from collections.abc import Callable

import tensorflow as tf

from tasks.task import Task

# Small batches from all over the data make up a part, because test data may be sorted by class.
_BATCH = 50


def on_part(task: Task, examples: int | None) -> Task:
  """The task, evaluated on about this many test examples; None for all."""
  if not examples:
    return task
  return dataclasses.replace(task, evaluation=part_of(task.evaluation, examples))


def part_of(
  evaluation: Callable[[int], tf.data.Dataset], examples: int
) -> Callable[[int], tf.data.Dataset]:
  """Evenly spaced batches of the test data, or its first batches if their number is unknown."""

  def part(batch_size: int) -> tf.data.Dataset:
    data = evaluation(min(batch_size, examples, _BATCH))
    size = len(
      tf.nest.flatten(next(iter(data)))[0]
    )  # tasks with large examples use smaller batches
    wanted, available = -(-examples // size), int(data.cardinality())
    if available > wanted:
      data = data.shard(available // wanted, 0)
    return data.take(wanted)

  return part
