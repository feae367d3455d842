"""Deep image models, with group normalisation instead of batch normalisation.

Each layer has two groups, as in GHBM. Batch statistics of clients with skewed labels are harmful, and running
averages would be additional state to aggregate. Keyword arguments make shallow, narrow models of the same
kinds of layers, for tests.
"""

from collections.abc import Sequence

import tensorflow as tf

from tasks.models.images import PENULTIMATE, Shape

GROUPS = 2
# Of MobileNetV2: expansion, filters, repeats, stride.
_MOBILE_STAGES = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1), (6, 160, 3, 2),
                  (6, 320, 1, 1))  # fmt: skip


def resnet20(
  shape: Shape, classes: int, *, filters: Sequence[int] = (16, 32, 64), blocks: int = 3
) -> "tf.keras.Model":
  """He et al.'s CIFAR ResNet-20 with parameter-free shortcuts: 275,572 parameters for CIFAR-100."""
  inputs = tf.keras.Input(shape)
  x = _relu(_norm(_conv(inputs, filters[0])))
  for stage, width in enumerate(filters):
    for block in range(blocks):
      step = 2 if stage and block == 0 else 1
      y = _relu(_norm(_conv(x, width, step)))
      y = _norm(_conv(y, width))
      x = _relu(_add(y, _shortcut(x, width, step)))
  x = tf.keras.layers.GlobalAveragePooling2D(name=PENULTIMATE)(x)
  return tf.keras.Model(inputs, tf.keras.layers.Dense(classes)(x))


def resnet18(
  shape: Shape, classes: int, *, filters: Sequence[int] = (64, 128, 256, 512), blocks: int = 2
) -> "tf.keras.Model":
  """Reddi et al.'s pre-activation ResNet-18 for CIFAR-100, with the size of TFF's: 11,227,812 parameters."""
  inputs = tf.keras.Input(shape)
  x = _relu(_norm(_conv(inputs, filters[0], 2, kernel=7)))
  x = tf.keras.layers.MaxPool2D(3, 2, padding="same")(x)
  for stage, width in enumerate(filters):
    for block in range(blocks):
      first = stage == 0 and block == 0
      y = _conv(x if first else _relu(_norm(x)), width)
      y = _conv(_relu(_norm(y)), width)
      shortcut = x if x.shape[-1] == width else _norm(_conv(x, width, kernel=1))
      x = _add(y, shortcut)
  x = tf.keras.layers.GlobalAveragePooling2D(name=PENULTIMATE)(_relu(_norm(x)))
  return tf.keras.Model(inputs, tf.keras.layers.Dense(classes)(x))


def vgg11(
  shape: Shape,
  classes: int,
  *,
  filters: Sequence[Sequence[int]] = ((64,), (128,), (256, 256), (512, 512), (512, 512)),
) -> "tf.keras.Model":
  """VGG-11 for 32×32 images (FedGM): 9,231,114 parameters for 10 classes."""
  inputs = tf.keras.Input(shape)
  x = inputs
  for stage in filters:
    for count in stage:
      x = _relu(_norm(_conv(x, count, bias=True)))
    x = tf.keras.layers.MaxPool2D(2, padding="same")(x)
  x = tf.keras.layers.Flatten(name=PENULTIMATE)(x)
  return tf.keras.Model(inputs, tf.keras.layers.Dense(classes)(x))


def mobilenet_v2(
  shape: Shape,
  classes: int,
  *,
  stages: Sequence[tuple[int, int, int, int]] = _MOBILE_STAGES,
  last: int = 1280,
) -> "tf.keras.Model":
  """MobileNetV2 (Sandler et al. 2018), with the size of Keras's: 2,223,872 parameters and the classifier."""
  inputs = tf.keras.Input(shape)
  x = _relu6(_norm(_conv(inputs, 32, 2)))
  for expansion, filters, repeats, stride in stages:
    for block in range(repeats):
      step, y = stride if block == 0 else 1, x
      if expansion > 1:
        y = _relu6(_norm(_conv(y, expansion * x.shape[-1], kernel=1)))
      y = tf.keras.layers.DepthwiseConv2D(3, step, padding="same", use_bias=False)(y)
      y = _norm(_conv(_relu6(_norm(y)), filters, kernel=1))
      x = _add(x, y) if step == 1 and x.shape[-1] == filters else y
  x = _relu6(_norm(_conv(x, last, kernel=1)))
  x = tf.keras.layers.GlobalAveragePooling2D(name=PENULTIMATE)(x)
  return tf.keras.Model(inputs, tf.keras.layers.Dense(classes)(x))


def vit_b16(
  shape: Shape, classes: int, *, width: int = 768, heads: int = 12, blocks: int = 12
) -> "tf.keras.Model":
  """ViT-B/16 (Dosovitskiy et al. 2021): 85,798,656 parameters and the classifier."""
  L = tf.keras.layers
  inputs = tf.keras.Input(shape)
  patches = L.Conv2D(width, 16, 16)(inputs)
  x = L.Reshape((-1, width))(patches)
  x = _ClassTokenAndPositions()(x)
  for _ in range(blocks):
    y = L.LayerNormalization(epsilon=1e-6)(x)
    x = _add(x, L.MultiHeadAttention(heads, width // heads)(y, y))
    y = L.LayerNormalization(epsilon=1e-6)(x)
    x = _add(x, L.Dense(width)(L.Dense(4 * width, activation="gelu")(y)))
  x = L.LayerNormalization(epsilon=1e-6)(x)
  x = L.Lambda(lambda tokens: tokens[:, 0], name=PENULTIMATE)(x)
  return tf.keras.Model(inputs, L.Dense(classes, kernel_initializer="zeros")(x))


class _ClassTokenAndPositions(tf.keras.layers.Layer):
  """Prepends a learned class token to the patches and adds learned position embeddings."""

  def build(self, shape):
    self.token = self.add_weight("token", (1, 1, shape[-1]), initializer="zeros")
    self.place = self.add_weight(
      "place",
      (1, shape[1] + 1, shape[-1]),
      initializer=tf.keras.initializers.RandomNormal(stddev=0.02),
    )

  def call(self, patches):
    token = tf.tile(self.token, [tf.shape(patches)[0], 1, 1])
    return tf.concat([token, patches], axis=1) + self.place


def _conv(x, filters, stride=1, kernel=3, bias=False):
  return tf.keras.layers.Conv2D(
    filters, kernel, stride, padding="same", use_bias=bias, kernel_initializer="he_normal"
  )(x)


def _norm(x):
  return tf.keras.layers.GroupNormalization(GROUPS)(x)


def _relu(x):
  return tf.keras.layers.ReLU()(x)


def _relu6(x):
  return tf.keras.layers.ReLU(6.0)(x)


def _add(x, y):
  return tf.keras.layers.Add()([x, y])


def _shortcut(x, filters, stride):
  """Returns the input subsampled and padded with zero channels to the block's output: no parameters.

  It uses only Keras's own layers, so that Keras can load a saved model without this file. With the data
  format "channels first", `ZeroPadding2D` pads the last dimension.
  """
  if stride > 1:
    x = tf.keras.layers.AveragePooling2D(1, stride)(x)
  missing = filters - x.shape[-1]
  if missing:
    channels = (missing // 2, missing - missing // 2)
    x = tf.keras.layers.ZeroPadding2D(((0, 0), channels), data_format="channels_first")(x)
  return x
