"""Random crops are windows of the padded image, uniformly placed, half of them mirrored."""

import numpy as np
import pytest
import tensorflow as tf

from tasks.data import augmentation


def windows(image: np.ndarray, size: int, padding: int) -> dict[bytes, tuple[int, int, bool]]:
  """All crops of an image by their content: (top, left, mirrored)."""
  padded = np.pad(image, [(padding, padding), (padding, padding), (0, 0)])
  height, width, _ = padded.shape
  found = {}
  for top in range(height - size + 1):
    for left in range(width - size + 1):
      crop = padded[top : top + size, left : left + size]
      found[crop.tobytes()] = (top, left, False)
      found[np.ascontiguousarray(crop[:, ::-1]).tobytes()] = (top, left, True)
  return found


@pytest.mark.parametrize(
  ("shape", "size", "padding"), [((6, 6, 3), 6, 2), ((7, 7, 1), 5, 0), ((5, 9, 2), 4, 0)]
)
def test_every_window_is_equally_likely(shape, size, padding):
  count = 4000
  image = np.random.default_rng(0).permutation(np.prod(shape)).reshape(shape).astype(np.float32)
  images = tf.constant(np.tile(image.astype(np.uint8), [count, 1, 1, 1]))
  made = augmentation.random_crop_and_flip(images, size, padding, tf.constant([3, 4]))
  assert made.dtype == tf.float32
  assert made.shape == [count, size, size, shape[2]]
  known = windows(image, size, padding)
  seen = np.array([known[crop.tobytes()] for crop in made.numpy()])
  for place, length in enumerate((shape[0], shape[1])):
    numbers = np.bincount(seen[:, place], minlength=length + 2 * padding - size + 1)
    np.testing.assert_allclose(numbers / count, 1 / len(numbers), atol=0.03)
  np.testing.assert_allclose(seen[:, 2].mean(), 0.5, atol=0.03)
  assert abs(np.corrcoef(seen.T.astype(float)) - np.eye(3)).max() < 0.06  # drawn independently


def test_the_seed_determines_the_crops():
  images = tf.reshape(tf.range(5 * 4 * 4.0), [5, 4, 4, 1])
  first, again, other = (
    augmentation.random_crop_and_flip(images, 3, 0, tf.constant([1, i])) for i in (1, 1, 2)
  )
  np.testing.assert_array_equal(first, again)
  assert np.any(first != other)


def test_a_batch_may_be_empty():
  made = augmentation.random_crop_and_flip(
    tf.zeros([0, 4, 4, 3], tf.uint8), 4, 1, tf.constant([1, 2])
  )
  assert made.shape == [0, 4, 4, 3]
