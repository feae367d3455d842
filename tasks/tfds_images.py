"""Centralised image data sets of TFDS, split over clients: by label, by a Dirichlet law, by similarity."""

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import tensorflow as tf

from tasks.data import augmentation, folders, partitions, synthetic, tfds
from tasks.data.batches import ArrayClients, ordered_batches
from tasks.data.sources import DATA, task_of
from tasks.models import deep, images
from tasks.models.classification import classifier
from tasks.task import Defaults, Task
from tff_momentum import validation
from tff_momentum.models.model import Model

MODELS: dict[str, Callable[..., Any]] = {
  "lenet": images.lenet,
  "resnet20": deep.resnet20,
  "vgg11": deep.vgg11,
  "cnn": images.cnn,
  "mlp300": images.dense(300),
  "mlp600": images.dense(600),
  "logistic": images.logistic,
}


class Images(NamedTuple):
  """A data set: its name in TFDS, its classes and shape where no data says so, and what is done to pixels.

  `moments` are mean and deviation of the pixels (0 to 255) of the training images, by channel; without
  them pixels are scaled to between 0 and 1.
  """

  dataset: str
  classes: int
  shape: tuple[int, int, int]
  moments: tuple[list[float], list[float]] | None = None


CIFAR10 = Images("cifar10", 10, (32, 32, 3), ([125.3, 123.0, 113.9], [63.0, 62.1, 66.7]))
CIFAR100 = Images("cifar100", 100, (32, 32, 3), ([129.3, 124.1, 112.4], [68.2, 65.4, 70.4]))
FASHION = Images("fashion_mnist", 10, (28, 28, 1))


class Options(NamedTuple):
  """What all these tasks take."""

  seed: int
  num_clients: int
  model: str
  data: str
  data_dir: str | None
  max_examples_per_client: int | None


def load_dirichlet(
  dataset: str,
  *,
  seed: int,
  num_clients: int = 100,
  alpha: float = 0.0,
  model: str = "lenet",
  data: str = "real",
  data_dir: str | None = None,
  max_examples_per_client: int | None = None,
) -> Task:
  """CIFAR as in the GHBM paper: random crops (4 pixels of padding) and flips, normalised by channel.

  Args:
    dataset: cifar10 or cifar100.
    seed: of the split and the initial weights.
    num_clients: how many clients; of equal sizes.
    alpha: the Dirichlet law's concentration; 0 gives each client one class, 10000 is IID.
    model: lenet, resnet20 or vgg11 (group normalisation).
    data: real or synthetic.
    data_dir: the folder with `tfds/cifar10` or `tfds/cifar100`.
    max_examples_per_client: only so many examples of each.
  """
  rates = {"lenet": 0.01, "resnet20": 0.1, "vgg11": 0.01}  # of the GHBM paper
  validation.one_of("model", model, rates)
  return _split(
    f"{dataset}_dirichlet",
    {"cifar10": CIFAR10, "cifar100": CIFAR100}[dataset],
    f"dirichlet:{alpha}",
    Options(seed, num_clients, model, data, data_dir, max_examples_per_client),
    Defaults(
      total_rounds=1000,
      clients_per_round=10,
      client_batch_size=64,
      client_learning_rate=rates[model],
    ),
    padding=4,
  )


def load_two_class(
  name: str,
  *,
  seed: int,
  num_clients: int = 50,
  partition: str = "classes:2",
  model: str | None = None,
  data: str = "real",
  data_dir: str | None = None,
  max_examples_per_client: int | None = None,
) -> Task:
  """CIFAR-10 or Fashion-MNIST as in the FedGLOMO paper: at most two classes a client, two hidden layers.

  Args:
    name: cifar10_two_class or fashion_mnist.
    seed: of the split and the initial weights.
    num_clients: how many clients; of equal sizes.
    partition: classes:2, or iid for FedGLOMO's homogeneous case.
    model: for CIFAR-10 mlp600 (the default), lenet or resnet20; else mlp300 (the default), cnn or logistic.
    data: real or synthetic.
    data_dir: the folder with `tfds/cifar10` or `tfds/fashion_mnist`.
    max_examples_per_client: only so many examples of each.
  """
  source, known = {
    "cifar10_two_class": (CIFAR10, ("mlp600", "lenet", "resnet20")),
    "fashion_mnist": (FASHION, ("mlp300", "cnn", "logistic")),
  }[name]
  model = known[0] if model is None else model
  validation.one_of("model", model, known)
  # FedGLOMO: 25 of 50 clients take 10 steps of 256, that is 2.5 epochs of 1,000 images.
  defaults = Defaults(
    total_rounds=200,
    clients_per_round=25,
    client_batch_size=256,
    client_learning_rate=0.05,
    client_epochs_per_round=2,
  )
  options = Options(seed, num_clients, model, data, data_dir, max_examples_per_client)
  return _split(name, source, partition, options, defaults)


def load_emnist_sorted(
  *,
  seed: int,
  num_clients: int = 400,
  similarity: float = 0.0,
  model: str = "logistic",
  data: str = "real",
  data_dir: str | None = None,
  max_examples_per_client: int | None = None,
) -> Task:
  """EMNIST balanced (47 classes) as in the SCAFFOLD paper: logistic regression, 20 of 400 clients a round.

  Args:
    seed: of the split and the initial weights.
    num_clients: how many clients.
    similarity: percentage of each client's examples that are IID; the rest is sorted by label.
    model: logistic or cnn.
    data: real or synthetic.
    data_dir: the folder with `tfds/emnist`.
    max_examples_per_client: only so many examples of each.
  """
  validation.one_of("model", model, ("logistic", "cnn"))
  validation.number("similarity", similarity, at_least=0, at_most=100)
  return _split(
    "emnist_sorted",
    Images("emnist/balanced", 47, (28, 28, 1)),
    f"similarity:{similarity}",
    Options(seed, num_clients, model, data, data_dir, max_examples_per_client),
    Defaults(
      total_rounds=200, clients_per_round=20, client_batch_size=56, client_learning_rate=0.1
    ),
  )


def load_tfds(
  dataset: str,
  *,
  seed: int,
  num_clients: int = 100,
  partition: str = "dirichlet:0.3",
  model: str = "cnn",
  data: str = "real",
  data_dir: str | None = None,
  max_examples_per_client: int | None = None,
) -> Task:
  """Any image classification data set of TFDS whose images have one size.

  Args:
    dataset: its name in TFDS.
    seed: of the split and the initial weights.
    num_clients: how many clients.
    partition: iid, dirichlet:ALPHA, classes:PER_CLIENT or similarity:PERCENT.
    model: cnn, lenet, resnet20, vgg11, mlp300, mlp600 or logistic.
    data: real or synthetic (28×28 grey images of ten classes).
    data_dir: the folder with `tfds/NAME`.
    max_examples_per_client: only so many examples of each.
  """
  validation.one_of("model", model, MODELS)
  return _split(
    f"tfds:{dataset}",
    Images(dataset, 10, (28, 28, 1)),
    partition,
    Options(seed, num_clients, model, data, data_dir, max_examples_per_client),
    Defaults(
      total_rounds=200, clients_per_round=10, client_batch_size=20, client_learning_rate=0.05
    ),
  )


def _split(
  name: str,
  source: Images,
  how: str,
  options: Options,
  defaults: Defaults,
  padding: int | None = None,
) -> Task:
  """The task that a data set becomes when it is divided; with padding, images are cropped and flipped."""
  validation.one_of("data", options.data, DATA)
  validation.integer("num_clients", options.num_clients, at_least=1)
  divide, limit = partitions.parse(how), options.max_examples_per_client
  details = {"partition": how, "model": options.model, "max_examples_per_client": limit}
  if options.data == "synthetic":
    train, test = _pipelines(source.shape, source.moments, padding)
    return task_of(
      name,
      synthetic.synthetic_source(
        synthetic.images(source.shape, source.classes, _law(how, source.classes)),
        seed=options.seed,
        num_clients=options.num_clients,
        examples=500 if source.moments else 200,
        max_examples=limit,
        spread=0.0,
        test_clients=10,
      ),
      _model(options.model, source.shape, source.classes, options.seed),
      lambda raw: (raw["image"], raw["label"].astype(np.int32)),
      defaults,
      details,
      augment=train,
      finish=test,
    )
  real = tfds.read(source.dataset, folders.root(options.data_dir))
  shape = real.train.images.shape[1:]
  parts = divide(real.train.labels, options.num_clients, options.seed)
  train, test = _pipelines(shape, source.moments, padding)
  clients = ArrayClients.of(tuple(real.train), [part[:limit] for part in parts], train)
  return clients.task(
    name,
    _model(options.model, shape, real.classes, options.seed),
    lambda batch_size: ordered_batches(tuple(real.test), batch_size, test),
    defaults,
    {"data": "real", "num_clients": options.num_clients, **details},
    "real",
  )


def _model(name: str, shape: tuple[int, ...], classes: int, seed: int) -> Model:
  return classifier(
    lambda: MODELS[name](shape, classes),
    tf.TensorSpec([None, *shape], tf.float32),
    seed,
    None if name == "logistic" else images.PENULTIMATE,
  )


def _pipelines(shape, moments, padding):
  """What is done to training batches and to test batches."""
  scale = augmentation.standardise_by(*moments) if moments else _unit

  def train(batch, seed):
    pixels = batch[0]
    if padding is not None:
      pixels = augmentation.random_crop_and_flip(pixels, shape[0], padding, seed)
    return scale(pixels), batch[1]

  return train, lambda batch: (scale(batch[0]), batch[1])


def _unit(pixels: tf.Tensor) -> tf.Tensor:
  return tf.cast(pixels, tf.float32) / 255


def _law(how: str, classes: int):
  """The synthetic clients' class distributions that come nearest to a split."""
  kind, _, value = how.partition(":")
  if kind == "dirichlet":
    return synthetic.class_law(float(value), classes)
  if kind == "classes":
    return synthetic.class_law(None, classes)
  alpha = (
    1e4 if kind == "iid" else float(value)
  )  # similarity: from one class at 0 % to many at 100 %
  return synthetic.class_law(alpha, classes)
