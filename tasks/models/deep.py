"""Deep image models with group normalisation in the place of batch normalisation.

Two groups in each layer, as in GHBM: batch statistics of skewed clients harm, and running averages
would be state to share.
"""

import tensorflow as tf

from tasks.models.images import PENULTIMATE, Shape

GROUPS = 2


def resnet20(shape: Shape, classes: int) -> "tf.keras.Model":
  """He et al.'s CIFAR ResNet-20 with parameter-free shortcuts: 275,572 parameters for CIFAR-100."""
  inputs = tf.keras.Input(shape)
  x = _relu(_norm(_conv(inputs, 16)))
  for filters, stride in ((16, 1), (32, 2), (64, 2)):
    for block in range(3):
      step = stride if block == 0 else 1
      y = _relu(_norm(_conv(x, filters, step)))
      y = _norm(_conv(y, filters))
      x = _relu(_add(y, _shortcut(x, filters, step)))
  x = tf.keras.layers.GlobalAveragePooling2D(name=PENULTIMATE)(x)
  return tf.keras.Model(inputs, tf.keras.layers.Dense(classes)(x))


def resnet18(shape: Shape, classes: int) -> "tf.keras.Model":
  """The pre-activation ResNet-18 of Reddi et al.'s CIFAR-100, as TFF builds it, of the same size."""
  inputs = tf.keras.Input(shape)
  x = _relu(_norm(_conv(inputs, 64, 2, kernel=7)))
  x = tf.keras.layers.MaxPool2D(3, 2, padding="same")(x)
  for stage, filters in enumerate((64, 128, 256, 512)):
    for block in range(2):
      first = stage == 0 and block == 0
      y = _conv(x if first else _relu(_norm(x)), filters)
      y = _conv(_relu(_norm(y)), filters)
      shortcut = x if x.shape[-1] == filters else _norm(_conv(x, filters, kernel=1))
      x = _add(y, shortcut)
  x = tf.keras.layers.GlobalAveragePooling2D(name=PENULTIMATE)(_relu(_norm(x)))
  return tf.keras.Model(inputs, tf.keras.layers.Dense(classes)(x))


def vgg11(shape: Shape, classes: int) -> "tf.keras.Model":
  """VGG-11 for 32×32 images (the FedGM paper): 9,231,114 parameters for 10 classes."""
  inputs = tf.keras.Input(shape)
  x = inputs
  for filters in ((64,), (128,), (256, 256), (512, 512), (512, 512)):
    for count in filters:
      x = _relu(_norm(_conv(x, count, bias=True)))
    x = tf.keras.layers.MaxPool2D(2, padding="same")(x)
  x = tf.keras.layers.Flatten(name=PENULTIMATE)(x)
  return tf.keras.Model(inputs, tf.keras.layers.Dense(classes)(x))


def mobilenet_v2(shape: Shape, classes: int) -> "tf.keras.Model":
  """MobileNetV2 (Sandler et al. 2018), of the size of Keras's own: 2,223,872 and the classifier."""
  inputs = tf.keras.Input(shape)
  x = _relu6(_norm(_conv(inputs, 32, 2)))
  stages = ((1, 16, 1, 1), (6, 24, 2, 2), (6, 32, 3, 2), (6, 64, 4, 2), (6, 96, 3, 1),
            (6, 160, 3, 2), (6, 320, 1, 1))  # fmt: skip
  for expansion, filters, repeats, stride in stages:
    for block in range(repeats):
      step, y = stride if block == 0 else 1, x
      if expansion > 1:
        y = _relu6(_norm(_conv(y, expansion * x.shape[-1], kernel=1)))
      y = tf.keras.layers.DepthwiseConv2D(3, step, padding="same", use_bias=False)(y)
      y = _norm(_conv(_relu6(_norm(y)), filters, kernel=1))
      x = _add(x, y) if step == 1 and x.shape[-1] == filters else y
  x = _relu6(_norm(_conv(x, 1280, kernel=1)))
  x = tf.keras.layers.GlobalAveragePooling2D(name=PENULTIMATE)(x)
  return tf.keras.Model(inputs, tf.keras.layers.Dense(classes)(x))


def vit_b16(shape: Shape, classes: int) -> "tf.keras.Model":
  """ViT-B/16 (Dosovitskiy et al. 2021): 85,798,656 parameters and the classifier."""
  L, width = tf.keras.layers, 768
  inputs = tf.keras.Input(shape)
  patches = L.Conv2D(width, 16, 16)(inputs)
  x = L.Reshape((-1, width))(patches)
  x = _ClassTokenAndPositions()(x)
  for _ in range(12):
    y = L.LayerNormalization(epsilon=1e-6)(x)
    x = _add(x, L.MultiHeadAttention(12, width // 12)(y, y))
    y = L.LayerNormalization(epsilon=1e-6)(x)
    x = _add(x, L.Dense(width)(L.Dense(4 * width, activation="gelu")(y)))
  x = L.LayerNormalization(epsilon=1e-6)(x)
  x = L.Lambda(lambda tokens: tokens[:, 0], name=PENULTIMATE)(x)
  return tf.keras.Model(inputs, L.Dense(classes, kernel_initializer="zeros")(x))


class _ClassTokenAndPositions(tf.keras.layers.Layer):
  """Puts a learned token before the patches, and adds a learned place to each."""

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
  """Takes every second place and adds channels of zeros, where a block does so: no parameters.

  Layers of Keras's own, which it loads again without this file. To a layer for channels first, the last
  dimension is one to pad.
  """
  if stride > 1:
    x = tf.keras.layers.AveragePooling2D(1, stride)(x)
  missing = filters - x.shape[-1]
  if missing:
    channels = (missing // 2, missing - missing // 2)
    x = tf.keras.layers.ZeroPadding2D(((0, 0), channels), data_format="channels_first")(x)
  return x
