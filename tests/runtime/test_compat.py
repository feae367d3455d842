"""TensorFlow's tensors leave nothing behind, and are what they were before that was so."""

import gc
import sys

import tensorflow as tf

from tff_momentum.runtime import compat


def blocks_left_behind(make, count: int = 1000) -> float:
  """How many blocks of memory a call leaves: the least of five tries, as other threads allocate too."""
  left = []
  for _ in range(5):
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(count):
      make()
    gc.collect()
    left.append((sys.getallocatedblocks() - before) / count)
  return min(left)


def test_a_tensor_leaves_no_memory_behind():
  x = tf.constant([1.0, 2.0])
  assert blocks_left_behind(lambda: x + x) < 0.1  # TensorFlow alone: 1
  assert blocks_left_behind(lambda: tf.data.Dataset.range(3)) < 0.1  # and 4


def test_tensors_still_take_attributes():
  def mark(tensor: tf.Tensor, value: int) -> int:
    tensor.mark = value
    return tensor.mark

  tensors = [tf.constant(i) for i in range(100)]  # often enough for Python to specialise the code
  assert [mark(x, i) for i, x in enumerate(tensors)] == list(range(100))
  assert tensors[7].__dict__ == {"mark": 7}
  assert not hasattr(tf.constant(0), "mark")


def test_doing_it_twice_is_doing_it_once():
  compat.stop_eager_tensor_leak()
  assert float(tf.constant(2.0) * 3) == 6
