"""EMNIST from TFF: handwritten characters by writer (62 classes, or the 10 digits)."""

import collections
import functools
import pathlib

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tasks.data import downloads, folders, sqlite, synthetic
from tasks.data.sources import DATA, Raw, Source, task_from_source, tff_source
from tasks.models import images
from tasks.models.classification import classifier
from tasks.task import Defaults, Task
from tff_momentum import validation
from tff_momentum.models.keras import from_keras
from tff_momentum.models.model import Model

SHAPE = (28, 28, 1)
CLASSIFIERS: dict[str, images.BuildModel] = {
  "cnn": images.cnn,
  "cnn_dropout": images.cnn_dropout,
  "cnn_fedgbo": images.cnn_fedgbo,
  "2nn": images.dense(200),
  "logistic": images.logistic,
}
MODELS = (*CLASSIFIERS, "autoencoder")


def load(
  name: str,
  *,
  seed: int,
  model: str | None = None,
  data: str = "real",
  data_dir: str | None = None,
  num_clients: int | None = None,
  max_examples_per_client: int | None = None,
) -> Task:
  """Loads the task.

  Args:
    name: emnist (62 classes) or emnist_digits (10).
    seed: seed of the initial weights and the synthetic data.
    model: cnn_dropout (Reddi et al., the default for 62 classes), cnn (McMahan et al., the default for
      digits), cnn_fedgbo (FedGBO), 2nn, logistic or autoencoder.
    data: real or synthetic.
    data_dir: the folder that contains `tff/emnist_all.sqlite`.
    num_clients: keep only this many writers, those with the most examples; synthetic data has any number.
    max_examples_per_client: upper bound on a client's examples.

  Returns:
    The task.

  Raises:
    ValueError: an option is invalid, or (`DataError`) the data is missing or damaged.
  """
  classes, limit = 10 if name == "emnist_digits" else 62, max_examples_per_client
  model = model or ("cnn" if classes == 10 else "cnn_dropout")
  validation.one_of("model", model, MODELS)
  validation.one_of("data", data, DATA)
  if data == "synthetic":
    source = _synthetic(classes, seed, num_clients or (3400 if classes == 62 else 3383), limit)
  else:
    source = real(folders.root(data_dir), classes, num_clients, limit)
  is_autoencoder = model == "autoencoder"
  return task_from_source(
    name,
    source,
    _autoencoder(seed) if is_autoencoder else _classifier(model, classes, seed),
    _prepare_pixels if is_autoencoder else _prepare,
    Defaults(
      total_rounds=100, clients_per_round=10, client_batch_size=20, client_learning_rate=0.1
    ),
    {"model": model, "max_examples_per_client": limit},
  )


def real(
  root: pathlib.Path, classes: int = 62, num_clients: int | None = None, limit: int | None = None
) -> Source:
  """Returns the writers of TFF's file."""
  path = root / "tff" / "emnist_all.sqlite"
  downloads.tff_database(path, sqlite.check)
  prefix = "digits_only" if classes == 10 else "all"
  return tff_source(
    path,
    functools.partial(
      tff.simulation.datasets.emnist.load_data,
      only_digits=classes == 10,
      cache_dir=str(path.parent),
    ),
    splits=(f"{prefix}_train", f"{prefix}_test"),
    num_clients=num_clients,
    max_examples=limit,
  )


def _synthetic(classes: int, seed: int, num_clients: int, limit: int | None) -> Source:
  draw = synthetic.images(SHAPE, classes, synthetic.class_law(classes * 0.3, classes))

  def make(rng: np.random.Generator, count: int) -> Raw:
    raw = draw(rng, count)
    return {
      "pixels": raw["image"][..., 0].astype(np.float32) / 255,
      "label": raw["label"].astype(np.int32),
    }

  return synthetic.synthetic_source(
    make, seed=seed, num_clients=num_clients, examples=100, max_examples=limit
  )


def _prepare(raw: Raw) -> tuple[np.ndarray, np.ndarray]:
  return raw["pixels"][..., None], raw["label"].astype(np.int32)


def _prepare_pixels(raw: Raw) -> tuple[np.ndarray, np.ndarray]:
  ink = 1 - raw["pixels"][..., None]
  return ink, ink


def _classifier(model: str, classes: int, seed: int) -> Model:
  return classifier(
    lambda: CLASSIFIERS[model](SHAPE, classes),
    tf.TensorSpec([None, *SHAPE], tf.float32),
    seed,
    None if model == "logistic" else images.PENULTIMATE,
  )


def _autoencoder(seed: int) -> Model:
  spec = tf.TensorSpec([None, *SHAPE], tf.float32)

  def loss(ink: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(tf.square(_flat(ink) - tf.sigmoid(logits)))

  def squared_error(ink: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
    return tf.reduce_mean(tf.square(_flat(ink) - tf.sigmoid(logits)), axis=1)

  return from_keras(
    lambda: images.autoencoder(SHAPE),
    loss=loss,
    batch_spec=(spec, spec),
    metrics=collections.OrderedDict(mse=squared_error),
    seed=seed,
  )


def _flat(pixels: tf.Tensor) -> tf.Tensor:
  return tf.reshape(pixels, [-1, SHAPE[0] * SHAPE[1]])
