"""Decides whether a full gradient may use larger batches than the client's.

The mean gradient over all of a client's examples does not depend on how they are cut into batches, if the
loss of a batch is the mean of its examples' losses and the model draws no random numbers. Products of large
matrices are faster than those of small ones, and a linear model spends as much time between two batches as on
one. Only dense layers qualify: the other layers either draw random numbers, need much more memory for a large
batch, or are compiled for one size of batch.
"""

from typing import Any

import tensorflow as tf
from keras.src.engine.functional import Functional

from tff_momentum.models.fast_losses import is_plain_mean

SIZE = 256
_layers = tf.keras.layers
_EXAMPLE_BY_EXAMPLE = {
  tf.keras.Sequential,
  Functional,
  _layers.InputLayer,
  _layers.Dense,
  _layers.Flatten,
  _layers.Reshape,
  _layers.Activation,
  _layers.ReLU,
  _layers.LeakyReLU,
  _layers.ELU,
}


def can_join(model: "tf.keras.Model", loss: Any) -> bool:
  """Whether the gradient of a batch is the mean of its examples' gradients, and large batches are faster.

  >>> dense = tf.keras.layers.Dense(1, input_shape=(3,))
  >>> can_join(tf.keras.Sequential([dense]), tf.keras.losses.MeanSquaredError())
  True
  >>> can_join(tf.keras.Sequential([dense, tf.keras.layers.Dropout(0.5)]), tf.keras.losses.MeanSquaredError())
  False
  """
  return is_plain_mean(loss) and all(map(_is_known, model._flatten_layers()))


def _is_known(layer: Any) -> bool:
  activation = getattr(layer, "activation", None)
  own = activation is None or activation.__module__.startswith("keras.")
  return own and type(layer) in _EXAMPLE_BY_EXAMPLE  # not a subclass, which may do anything
