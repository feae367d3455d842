"""Small image models of the federated learning papers; all return logits."""

from collections.abc import Callable

import tensorflow as tf

Shape = tuple[int, int, int]  # height, width, channels
BuildModel = Callable[[Shape, int], "tf.keras.Model"]  # (shape of an image, number of classes)
PENULTIMATE = "penultimate"  # name of the layer whose activations FedMAX regularises


def cnn_dropout(shape: Shape, classes: int) -> "tf.keras.Model":
  """Reddi et al.'s EMNIST CNN, with dropout: 1,199,882 parameters for 10 classes."""
  L = tf.keras.layers
  return tf.keras.Sequential(
    [
      L.Conv2D(32, 3, activation="relu", input_shape=shape),
      L.Conv2D(64, 3, activation="relu"),
      L.MaxPool2D(2),
      L.Dropout(0.25),
      L.Flatten(),
      L.Dense(128, activation="relu", name=PENULTIMATE),
      L.Dropout(0.5),
      L.Dense(classes),
    ]
  )


def cnn(shape: Shape, classes: int) -> "tf.keras.Model":
  """McMahan et al.'s MNIST CNN: 1,663,370 parameters for 10 classes."""
  L = tf.keras.layers
  return tf.keras.Sequential(
    [
      L.Conv2D(32, 5, padding="same", activation="relu", input_shape=shape),
      L.MaxPool2D(2, padding="same"),
      L.Conv2D(64, 5, padding="same", activation="relu"),
      L.MaxPool2D(2, padding="same"),
      L.Flatten(),
      L.Dense(512, activation="relu", name=PENULTIMATE),
      L.Dense(classes),
    ]
  )


def cnn_fedgbo(shape: Shape, classes: int) -> "tf.keras.Model":
  """FedGBO's CNN: 870,334 parameters for FEMNIST.

  For CIFAR-100 it has 890,404 parameters with the 28×28 crops of FedGBO's text, and 1,250,852 with the 32×32
  images that match the FLOPs in FedGBO's Tables 7 and 8.
  """
  L = tf.keras.layers
  return tf.keras.Sequential(
    [
      L.Conv2D(32, 3, activation="relu", input_shape=shape),
      L.MaxPool2D(2),
      L.Conv2D(64, 3, activation="relu"),
      L.MaxPool2D(2),
      L.Flatten(),
      L.Dense(512, activation="relu", name=PENULTIMATE),
      L.Dense(classes),
    ]
  )


def lenet(shape: Shape, classes: int) -> "tf.keras.Model":
  """The LeNet-like CNN of Hsu et al. 2020 and GHBM: 797,962 parameters for CIFAR-10."""
  L = tf.keras.layers
  return tf.keras.Sequential(
    [
      L.Conv2D(64, 5, activation="relu", input_shape=shape),
      L.MaxPool2D(2),
      L.Conv2D(64, 5, activation="relu"),
      L.MaxPool2D(2),
      L.Flatten(),
      L.Dense(384, activation="relu"),
      L.Dense(192, activation="relu", name=PENULTIMATE),
      L.Dense(classes),
    ]
  )


def lenet5(shape: Shape, classes: int) -> "tf.keras.Model":
  """LeNet-5 with ReLU and max pooling: 62,006 parameters for CIFAR-10."""
  L = tf.keras.layers
  return tf.keras.Sequential(
    [
      L.Conv2D(6, 5, activation="relu", input_shape=shape),
      L.MaxPool2D(2),
      L.Conv2D(16, 5, activation="relu"),
      L.MaxPool2D(2),
      L.Flatten(),
      L.Dense(120, activation="relu"),
      L.Dense(84, activation="relu", name=PENULTIMATE),
      L.Dense(classes),
    ]
  )


def dense(units: int) -> BuildModel:
  """Two hidden layers of equal size: 200 units are McMahan et al.'s 2NN, 300 and 600 are FedGLOMO's."""

  def build(shape: Shape, classes: int) -> "tf.keras.Model":
    L = tf.keras.layers
    return tf.keras.Sequential(
      [
        L.Flatten(input_shape=shape),
        L.Dense(units, activation="relu"),
        L.Dense(units, activation="relu", name=PENULTIMATE),
        L.Dense(classes),
      ]
    )

  return build


def logistic(shape: Shape, classes: int) -> "tf.keras.Model":
  """Multinomial logistic regression, initialised to zero."""
  L = tf.keras.layers
  return tf.keras.Sequential(
    [L.Flatten(input_shape=shape), L.Dense(classes, kernel_initializer="zeros")]
  )


def autoencoder(shape: Shape) -> "tf.keras.Model":
  """Hinton and Salakhutdinov's bottleneck autoencoder: 2,837,314 parameters; returns logits of pixels."""
  L = tf.keras.layers
  pixels = shape[0] * shape[1] * shape[2]
  hidden = [L.Dense(n, activation="sigmoid") for n in (1000, 500, 250)]
  outward = [L.Dense(n, activation="sigmoid") for n in (250, 500, 1000)]
  return tf.keras.Sequential(
    [L.Flatten(input_shape=shape), *hidden, L.Dense(30), *outward, L.Dense(pixels)]
  )
