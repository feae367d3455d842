"""Results are views of TensorFlow buffers and become the same tensors again."""

import numpy as np
import pytest
import tensorflow as tf

from tff_momentum.runtime import arrays


@pytest.mark.parametrize("value", [[[1.0, 2.0], [3.0, 4.0]], [True, False], [7], [1 + 2j]])
def test_numbers_are_not_copied_in_either_direction(value):
  tensor = tf.constant(value)
  array = arrays.array_of(tensor)
  np.testing.assert_array_equal(array, value)
  assert arrays.tensor_of(array) is tensor
  assert np.shares_memory(array, tensor._numpy())


def test_they_outlive_the_tensor_and_cannot_be_changed():
  array = arrays.array_of(tf.ones([1000]) + 1)
  with pytest.raises(ValueError, match="read-only"):
    array[0] = 5
  assert array.sum() == 2000


def test_other_arrays_are_no_tensors():
  array = arrays.array_of(tf.ones([4, 4]))
  for other in (array[:2], array.T, array.view(np.int32), array.copy(), 3.0, [1.0]):
    assert arrays.tensor_of(other) is None


def test_text_and_single_numbers_are_copied():
  assert arrays.array_of(tf.constant(7)) == 7
  assert arrays.array_of(tf.constant("word")) == b"word"
  np.testing.assert_array_equal(arrays.array_of(tf.constant(["a", "b"])), [b"a", b"b"])
