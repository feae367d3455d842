"""Prepares the functions of clients while others are still being traced.

TensorFlow optimises a function when it first runs, which takes a second for a ResNet's, on one core. Without
this module, all slots of a pass would do so at the same time, each for itself, and the function of the next
pass would have to wait. Here a thread runs a function once as soon as it is traced, for a client without
data: its loops end at once, and what it computes from zeros is thrown away.
"""

import threading
from collections.abc import Sequence

import tensorflow as tf
from tensorflow.core.framework import function_pb2
from tensorflow.python.framework import op_def_registry

from tff_momentum.runtime.batch_rule import BatchRule
from tff_momentum.runtime.chunks import ChunkFunction
from tff_momentum.runtime.client_batches import ENDLESS, leaves_of

_MAX_BYTES = 2**26  # of zeros; a large model is worth more memory than time
# Operations with state whose run has no effect that anybody sees. Others, such as prints and random numbers
# of TensorFlow's own generator, must not run more often than clients do.
_HARMLESS = {"While", "If", "StatefulPartitionedCall", "Assert"}


def prepare(chunk: ChunkFunction, rule: BatchRule | None, device: str) -> None:
  """Starts to prepare the function of a chunk for a device, if a run without data is possible.

  Args:
    chunk: The function.
    rule: The rule of the batches that clients read by index; None if they read data sets.
    device: Where it runs.
  """
  inputs = None if rule is None else _inputs(chunk, rule)
  if inputs is None:
    return
  ended = threading.Event()

  def run() -> None:
    try:
      if _is_harmless(chunk.function.definitions()[2]):
        chunk.function.call_used(inputs, device)
    except tf.errors.OpError:
      pass  # the computation may refuse zeros; a client's own error is reported in its turn
    finally:
      ended.set()

  thread = threading.Thread(target=run, name="prepare")
  chunk.function.wait_before_calls(ended, thread)
  thread.start()


def _inputs(chunk: ChunkFunction, rule: BatchRule) -> list[tf.Tensor] | None:
  """Returns arguments for a client without data, or no clients; None if some shape is unknown."""
  function = chunk.function
  inputs: list[tf.Tensor] = []
  total = 0
  for place, spec in zip(function.used, function.specs, strict=True):
    if place >= chunk.num_shared and chunk.layout.looped:
      is_list = spec.dtype == tf.variant
      inputs.append(_empty_list() if is_list else tf.zeros([0], spec.dtype))
    elif spec.dtype == tf.variant and place >= chunk.num_shared:
      inputs.append(_no_batches(rule))
    elif spec.dtype in (tf.variant, tf.resource) or not spec.shape.is_fully_defined():
      return None
    else:
      total += spec.shape.num_elements() * spec.dtype.size
      inputs.append(tf.zeros(spec.shape, spec.dtype))
    if total > _MAX_BYTES:
      return None
  return inputs


def _empty_list() -> tf.Tensor:
  return tf.raw_ops.EmptyTensorList(element_shape=-1, max_num_elements=-1, element_dtype=tf.variant)


def _no_batches(rule: BatchRule) -> tf.Tensor:
  """Returns the leaf of a client without examples."""
  arrays = [tf.zeros([0, *[n or 1 for n in spec.shape[1:]]], spec.dtype) for spec in rule.specs]
  numbers = tf.constant([[0, 0, 1, 0, 0, 0, ENDLESS, 0, 0]], tf.int64)
  (leaf,) = leaves_of(numbers.numpy(), [arrays])
  return leaf


def _is_harmless(definitions: Sequence[bytes]) -> bool:
  for serialized in definitions:
    for node in function_pb2.FunctionDef.FromString(serialized).node_def:
      definition = op_def_registry.get(node.op)
      if node.op not in _HARMLESS and (definition is None or definition.is_stateful):
        return False
  return True
