"""The Keras models of the work items."""

import tensorflow as tf

from experiments.benchmarks import work_items

layers = tf.keras.layers


def build(item: work_items.Item) -> tf.keras.Model:
  """Builds the model of an item; in eager mode, with the initial weights of all competitors."""
  model = _BUILDERS[item.model](item)
  if tf.executing_eagerly():
    for name, weights in work_items.initial_weights(item).items():
      model.get_layer(name).set_weights(weights)
  return model


def loss() -> tf.keras.losses.Loss:
  """The loss of all items."""
  return tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True)


def _logreg(item: work_items.Item) -> tf.keras.Model:
  return tf.keras.Sequential([layers.Input(item.shape), layers.Dense(item.classes, name="head")])


def _cnn(item: work_items.Item) -> tf.keras.Model:
  return tf.keras.Sequential(
    [
      layers.Input(item.shape),
      layers.Conv2D(32, 3, activation="relu", name="conv1"),
      layers.MaxPool2D(),
      layers.Conv2D(64, 3, activation="relu", name="conv2"),
      layers.MaxPool2D(),
      layers.Flatten(),
      layers.Dense(512, activation="relu", name="dense"),
      layers.Dense(item.classes, name="head"),
    ]
  )


def _gru(item: work_items.Item) -> tf.keras.Model:
  return tf.keras.Sequential(
    [
      layers.Input(item.shape, dtype=tf.int32),
      layers.Embedding(item.classes, 8, name="embed"),
      layers.GRU(128, return_sequences=True, name="gru1"),
      layers.GRU(128, return_sequences=True, name="gru2"),
      layers.Dense(item.classes, name="head"),
    ]
  )


def _resnet(item: work_items.Item) -> tf.keras.Model:
  def conv(x, width, size, stride, name, norm):
    x = layers.Conv2D(width, size, stride, padding="same", use_bias=False, name=name)(x)
    return layers.GroupNormalization(2, epsilon=1e-5, name=norm)(x)

  inputs = layers.Input(item.shape)
  x = layers.ReLU()(conv(inputs, work_items.RESNET_WIDTH, 3, 1, "stem", "stem_gn"))
  for name, before, after, stride in work_items.residual_blocks():
    h = layers.ReLU()(conv(x, after, 3, stride, f"{name}_conv1", f"{name}_gn1"))
    h = conv(h, after, 3, 1, f"{name}_conv2", f"{name}_gn2")
    if (before, stride) != (after, 1):
      x = conv(x, after, 1, stride, f"{name}_proj", f"{name}_projgn")
    x = layers.ReLU()(layers.Add()([h, x]))
  x = layers.GlobalAveragePooling2D()(x)
  return tf.keras.Model(inputs, layers.Dense(item.classes, name="head")(x))


_BUILDERS = {"logreg": _logreg, "cnn": _cnn, "gru": _gru, "resnet": _resnet}
