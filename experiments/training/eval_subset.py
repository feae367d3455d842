"""On how much of the test data a run is evaluated: all of it, or the same part of it every time."""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from experiments.cli import scale
from tasks.task import Task

_BATCH = 50  # a part is made of batches from all over the data, which may be sorted; small ones spread better


def resolve(flags: Any, task: Task) -> int | None:
  """How many test examples the flags ask for; None is all of them. `--scale` shrinks the test, too."""
  if flags.eval_examples is None and flags.scale is None:
    return None
  there = int(task.evaluation(1).cardinality())
  wanted = flags.eval_examples or (
    scale.shrink("eval_examples", there, flags.scale)
    if there >= 0
    else scale.AT_LEAST["eval_examples"]
  )
  return None if 0 <= there <= wanted else wanted


def on_part(task: Task, examples: int | None) -> Task:
  """The task, evaluated on about so many test examples."""
  return (
    dataclasses.replace(task, evaluation=part_of(task.evaluation, examples)) if examples else task
  )


def part_of(
  evaluation: Callable[[int], tf.data.Dataset], examples: int
) -> Callable[[int], tf.data.Dataset]:
  """Test data cut down to batches at even distances; to the first ones where their number is not known."""

  def part(batch_size: int) -> tf.data.Dataset:
    data = evaluation(min(batch_size, examples, _BATCH))
    size = len(tf.nest.flatten(next(iter(data)))[0])  # less where the task thinks of memory
    wanted, there = -(-examples // size), int(data.cardinality())
    if there > wanted:
      data = data.shard(there // wanted, 0)
    return data.take(wanted)

  return part
