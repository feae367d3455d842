"""Tells how clients read their batches: gathered by index, or from an iterator."""

from typing import TypeAlias

import tensorflow as tf

from tff_momentum.runtime.batch_rule import BatchRule
from tff_momentum.runtime.client_batches import ClientBatches
from tff_momentum.runtime.references import DataReference
from tff_momentum.runtime.rewrite import batch_reader
from tff_momentum.runtime.rewrite.options import NeedsIterators

# What a client's data may be.
Data: TypeAlias = ClientBatches | tf.data.Dataset | DataReference


def reads_by_index(data: Data) -> bool:
  """Returns whether clients gather batches like `data` by index, in process and on Ray.

  Args:
    data: The data of any client, as a task hands it over.

  >>> import numpy as np, tff_momentum as tfm
  >>> from tff_momentum import runtime
  >>> batches = tfm.ClientBatches(np.arange(5), batch_size=2)
  >>> runtime.reads_by_index(batches), runtime.reads_by_index(batches.as_dataset())
  (True, False)
  """
  rule = rule_of(data)
  if rule is None:
    return False
  try:
    batch_reader.reader(rule, tuple(tf.nest.flatten(rule.element_spec)), repeats=True)
  except NeedsIterators:
    return False
  return True


def rule_of(data: Data) -> BatchRule | None:
  """Returns the rule of batches; None for data sets."""
  if isinstance(data, DataReference):
    return data.rule()
  return data.rule if isinstance(data, ClientBatches) else None
