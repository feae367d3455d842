"""Handwritten digits: 1,797 images of 8×8 pixels, which scikit-learn ships, with a Dirichlet label split.

A fixed fifth of each class is the test set. `tasks.data.partitions.dirichlet` splits the other images.
"""

import numpy as np
import tensorflow as tf
from sklearn import datasets

from tasks.data import partitions
from tasks.data.batches import ArrayClients, ordered_batches
from tasks.models.classification import classifier
from tasks.task import Defaults, Task
from tff_momentum import validation


def mlp() -> "tf.keras.Model":
  """One hidden layer of 64 units: 4,810 parameters."""
  return tf.keras.Sequential(
    [
      tf.keras.layers.Dense(64, activation="relu", input_shape=(64,), name="hidden"),
      tf.keras.layers.Dense(10),
    ]
  )


def logistic() -> "tf.keras.Model":
  """Multinomial logistic regression, initialised to zero: 650 parameters, a convex problem."""
  return tf.keras.Sequential(
    [tf.keras.layers.Dense(10, kernel_initializer="zeros", input_shape=(64,))]
  )


MODELS = {"mlp": (mlp, "hidden"), "logistic": (logistic, None)}


def load(*, seed: int, num_clients: int = 100, alpha: float = 0.5, model: str = "mlp") -> Task:
  """Loads the task.

  Args:
    seed: seed of the split and the initial weights.
    num_clients: number of clients that share the 1,438 training images.
    alpha: concentration of the Dirichlet distribution; 0 gives each client one class, a large value is IID.
    model: mlp or logistic.

  Returns:
    The task.

  Raises:
    ValueError: an option is invalid.
  """
  validation.one_of("model", model, MODELS)
  images, labels = read()
  test = held_out(labels)
  train = np.flatnonzero(~test)
  parts = partitions.dirichlet(labels[train], num_clients, alpha, seed)
  clients = ArrayClients.of((images[train], labels[train]), parts)
  build, penultimate = MODELS[model]
  return clients.task(
    "digits",
    classifier(build, tf.TensorSpec([None, 64], tf.float32), seed, penultimate),
    lambda batch_size: ordered_batches((images[test], labels[test]), batch_size),
    Defaults(
      total_rounds=100,
      clients_per_round=10,
      client_batch_size=10,
      client_learning_rate=0.3,
      client_epochs_per_round=2,
    ),
    {
      "num_clients": num_clients,
      "alpha": alpha,
      "model": model,
      "test_examples": int(test.sum()),
    },
    "embedded",
  )


def read() -> tuple[np.ndarray, np.ndarray]:
  """Returns all images as float32[1797, 64] between -1 and 1, and their labels."""
  images, labels = datasets.load_digits(return_X_y=True)
  return (images / 8 - 1).astype(np.float32), labels.astype(np.int32)


def held_out(labels: np.ndarray) -> np.ndarray:
  """Returns which examples are for testing: a fifth of each class, the same in every run."""
  test = np.zeros(len(labels), bool)
  rng = np.random.default_rng(0)
  for k in np.unique(labels):
    members = np.flatnonzero(labels == k)
    test[rng.permutation(members)[: round(len(members) / 5)]] = True
  return test
