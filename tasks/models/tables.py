"""Models of regression tables: one number from a row of features."""

import tensorflow as tf


def linear(features: int) -> "tf.keras.Model":
  """Linear regression, initialised to zero."""
  return tf.keras.Sequential(
    [tf.keras.layers.Dense(1, kernel_initializer="zeros", input_shape=(features,))]
  )


def mlp(features: int) -> "tf.keras.Model":
  """One hidden layer of 32 units."""
  return tf.keras.Sequential(
    [
      tf.keras.layers.Dense(32, activation="relu", input_shape=(features,), name="hidden"),
      tf.keras.layers.Dense(1),
    ]
  )
