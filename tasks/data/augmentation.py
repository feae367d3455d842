"""Seeded, vectorised transformations of image batches."""

from collections.abc import Callable

import tensorflow as tf

Batch = tuple[tf.Tensor, tf.Tensor]  # images, labels


def random_crop_and_flip(images: tf.Tensor, size: int, padding: int, seed: tf.Tensor) -> tf.Tensor:
  """Pads each image, crops a random square from it, and flips it left to right with probability ½.

  Args:
    images: [batch, height, width, channels].
    size: side of the square.
    padding: pixels of zeros to add on each side.
    seed: a seed of two integers.

  Returns:
    The images as float32, because GPUs have no kernel that gathers bytes.
  """
  images = tf.cast(images, tf.float32)
  if padding:
    images = tf.pad(images, [[0, 0], [padding, padding], [padding, padding], [0, 0]])
  count, (height, width, channels) = tf.shape(images)[0], images.shape[1:]
  index = tf.int64  # GPUs compute with 32-bit integers on the host
  seeds = tf.random.experimental.stateless_split(seed, 3)

  def first(length: int, seed: tf.Tensor) -> tf.Tensor:
    drawn = tf.random.stateless_uniform([count, 1], seed, 0, length - size + 1, tf.int32)
    return tf.cast(drawn, index)

  window = tf.range(size, dtype=index)[None]
  mirrored = tf.random.stateless_uniform([count, 1], seeds[2]) < 0.5
  rows = first(height, seeds[0]) + window
  columns = first(width, seeds[1]) + tf.where(mirrored, window[:, ::-1], window)
  # One gather of pixels from all images takes less than half the time of a crop along each axis and a flip.
  number = tf.range(tf.cast(count, index))[:, None]
  pixels = ((number * height + rows) * width)[:, :, None] + columns[:, None]
  return tf.gather(tf.reshape(images, [-1, channels]), pixels)


def central_crop(images: tf.Tensor, size: int) -> tf.Tensor:
  """Crops the square in the middle of each image."""
  start = (images.shape[1] - size) // 2
  return images[:, start : start + size, start : start + size]


def to_unit(images: tf.Tensor) -> tf.Tensor:
  """Scales pixels from [0, 255] to [0, 1]."""
  return tf.cast(images, tf.float32) / 255


def standardise_each(images: tf.Tensor) -> tf.Tensor:
  """Scales each image to mean 0 and variance 1 (Reddi et al. 2021)."""
  return tf.image.per_image_standardization(tf.cast(images, tf.float32))


def standardise_by(mean: list[float], deviation: list[float]) -> Callable[[tf.Tensor], tf.Tensor]:
  """Returns a function that subtracts the mean and divides by the deviation of each channel (GHBM).

  Args:
    mean: mean of the data set's pixels (0 to 255), per channel.
    deviation: standard deviation of the same, per channel.
  """
  return lambda images: (tf.cast(images, tf.float32) - mean) / deviation
