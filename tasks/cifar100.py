"""CIFAR-100 from TFF: 500 clients by Pachinko allocation over the tree of labels (Reddi et al. 2021).

Training images are cropped at random and flipped, test images are cropped in the middle, and each image is
standardised.
"""

import functools
import pathlib

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tasks.data import augmentation, downloads, folders, sqlite, synthetic
from tasks.data.sources import DATA, Source, task_from_source, tff_source
from tasks.models import deep, images
from tasks.models.classification import classifier
from tasks.task import Defaults, Task
from tff_momentum import validation

MODELS: dict[str, images.BuildModel] = {
  "resnet18": deep.resnet18,
  "resnet20": deep.resnet20,
  "lenet": images.lenet,
  "cnn_fedgbo": images.cnn_fedgbo,
}


def load(
  *,
  seed: int,
  model: str = "resnet18",
  data: str = "real",
  data_dir: str | None = None,
  crop: int = 24,
  num_clients: int | None = None,
  max_examples_per_client: int | None = None,
) -> Task:
  """Loads the task.

  Args:
    seed: seed of the initial weights and the synthetic data.
    model: resnet18 or resnet20 (group normalisation), lenet, or cnn_fedgbo (FedGBO).
    data: real or synthetic.
    data_dir: the folder that contains `tff/cifar100.sqlite`.
    crop: side of the crops: 24 (Reddi et al.), 28 (FedGBO), or 32 for whole images.
    num_clients: keep only this many clients; synthetic data has any number.
    max_examples_per_client: upper bound on a client's examples.

  Returns:
    The task.

  Raises:
    ValueError: an option is invalid, or (`DataError`) the data is missing or damaged.
  """
  validation.one_of("model", model, MODELS)
  validation.one_of("data", data, DATA)
  validation.number("crop", validation.integer("crop", crop, at_least=16), at_most=32)
  if data == "synthetic":
    source = synthetic.synthetic_source(
      synthetic.images((32, 32, 3), 100, synthetic.class_law(10.0, 100)),
      seed=seed,
      num_clients=num_clients or 500,
      examples=100,
      max_examples=max_examples_per_client,
      spread=0.0,
    )
  else:
    source = real(folders.root(data_dir), num_clients, max_examples_per_client)

  def train(batch: augmentation.Batch, seed: tf.Tensor) -> augmentation.Batch:
    cut = augmentation.random_crop_and_flip(batch[0], crop, 0, seed)
    return augmentation.standardise_each(cut), batch[1]

  def test(batch: augmentation.Batch) -> augmentation.Batch:
    return augmentation.standardise_each(augmentation.central_crop(batch[0], crop)), batch[1]

  shape = (crop, crop, 3)
  return task_from_source(
    "cifar100",
    source,
    classifier(
      lambda: MODELS[model](shape, 100),
      tf.TensorSpec([None, *shape], tf.float32),
      seed,
      images.PENULTIMATE,
    ),
    lambda raw: (raw["image"], raw["label"].astype(np.int32)),
    Defaults(
      total_rounds=4000, clients_per_round=10, client_batch_size=20, client_learning_rate=0.1
    ),
    {"model": model, "crop": crop, "max_examples_per_client": max_examples_per_client},
    augment=train,
    finish=test,
  )


def real(root: pathlib.Path, num_clients: int | None = None, limit: int | None = None) -> Source:
  """Returns the clients of TFF's file."""
  path = root / "tff" / "cifar100.sqlite"
  downloads.tff_database(path, sqlite.check)
  return tff_source(
    path,
    functools.partial(tff.simulation.datasets.cifar100.load_data, cache_dir=str(path.parent)),
    splits=("train", "test"),
    num_clients=num_clients,
    max_examples=limit,
  )
