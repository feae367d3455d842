"""The data set operations that a graph may apply to `ClientBatches`: they change or read a leaf's numbers.

`dataset_reduce` puts these functions in the place of the operations; `batch_reader` describes a leaf.
"""

import functools
from collections.abc import Callable

import tensorflow as tf

from tff_momentum.runtime.batch_rule import BatchRule
from tff_momentum.runtime.client_batches import ENDLESS
from tff_momentum.runtime.rewrite.batch_reader import (
  LEAF,
  on_cpu,
  open_leaf,
  trace_unique,
  with_numbers,
)
from tff_momentum.runtime.rewrite.function_defs import Functions

_NUMBER = tf.TensorSpec([], tf.int64)


def _cardinality(rule: BatchRule, leaf: tf.Tensor) -> tf.Tensor:
  numbers, _ = open_leaf(rule, leaf)
  endless = tf.constant(tf.data.INFINITE_CARDINALITY, tf.int64)
  return tf.where(tf.equal(numbers.count, ENDLESS), endless, numbers.count)


def _same(rule: BatchRule, leaf: tf.Tensor, *settings: tf.Tensor) -> tf.Tensor:
  return tf.identity(leaf)


def _take(rule: BatchRule, leaf: tf.Tensor, at_most: tf.Tensor) -> tf.Tensor:
  numbers, arrays = open_leaf(rule, leaf)
  everything = (at_most < 0) | (at_most > numbers.count)
  count = tf.where(everything, numbers.count, at_most)
  begun = tf.where(everything, numbers.begun, 0)
  return with_numbers(numbers._replace(count=count, begun=begun), arrays)


def _repeat(rule: BatchRule, leaf: tf.Tensor, times: tf.Tensor) -> tf.Tensor:
  numbers, arrays = open_leaf(rule, leaf)
  count, batches = numbers.count, tf.maximum(numbers.batches, 1)
  endless = tf.equal(count, ENDLESS)
  first = tf.equal(numbers.period, ENDLESS)
  check = tf.debugging.Assert(
    first | endless | tf.equal(times, 0) | tf.equal(times, 1),
    ["Expected ClientBatches that are repeated at most twice; found a third time: pass as_dataset()."],
  )  # fmt: skip
  whole_epochs = tf.equal(count % batches, 0) & tf.equal(numbers.begun, 0) | endless
  with tf.control_dependencies([check]):
    changes = first & tf.logical_not(whole_epochs)
  repeated = numbers._replace(
    count=tf.where(
      (times < 0) & (count > 0) | endless & tf.not_equal(times, 0),
      ENDLESS,
      count * tf.maximum(times, 0),
    ),
    period=tf.where(changes, count, numbers.period),
    epochs=tf.where(changes, (count - 1) // batches + 1 + numbers.begun, numbers.epochs),
    begun=tf.ones([], tf.int64),
  )
  return with_numbers(repeated, arrays)


def _rebatch(
  rule: BatchRule, leaf: tf.Tensor, sizes: tf.Tensor, drop_remainder: tf.Tensor
) -> tf.Tensor:
  """Changes the size of the batches of one epoch, where that changes no example."""
  if not rule.can_change_size:
    return tf.identity(leaf)
  numbers, arrays = open_leaf(rule, leaf)
  check = tf.debugging.Assert(
    tf.equal(numbers.count, numbers.batches) & tf.logical_not(drop_remainder),
    ["Expected one whole epoch of ClientBatches to rebatch; found another number of batches."],
  )
  with tf.control_dependencies([check]):
    batches = -(-numbers.examples // sizes[0])
  return with_numbers(numbers._replace(size=sizes[0], batches=batches, count=batches), arrays)


# The replacement of each data set op: (rule, the op's inputs) -> output.
REPLACEMENTS: dict[str, Callable[..., tf.Tensor]] = {
  "DatasetCardinality": _cardinality,
  "OptionsDataset": _same,
  "PrefetchDataset": _same,
  "RebatchDatasetV2": _rebatch,
  "RepeatDataset": _repeat,
  "TakeDataset": _take,
}
_INPUTS = {
  "DatasetCardinality": [LEAF],
  "OptionsDataset": [LEAF],
  "RebatchDatasetV2": [LEAF, tf.TensorSpec([None], tf.int64), tf.TensorSpec([], tf.bool)],
}


@functools.lru_cache(maxsize=1024)
def replacement(op: str, rule: BatchRule) -> Functions:
  """Returns the function that replaces a data set op."""
  specs = _INPUTS.get(op, [LEAF, _NUMBER])
  function = functools.partial(REPLACEMENTS[op], rule)
  return trace_unique(f"{rule.name}_{op}", on_cpu(lambda *inputs: [function(*inputs)]), specs)
