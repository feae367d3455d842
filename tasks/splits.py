"""Centralised image data sets of TFDS, split over clients: by label, by a Dirichlet law, by similarity."""

from collections.abc import Callable
from typing import Any

import numpy as np
import tensorflow as tf

from tasks import augment, cache, partition, synthetic, tfds_arrays
from tasks.arrays import ArrayClients, ordered_batches
from tasks.classification import classifier
from tasks.models import deep, images
from tasks.sources import DATA, task_of
from tasks.task import Defaults, Task
from tff_momentum import checks
from tff_momentum.gradients import Model

MODELS: dict[str, Callable[..., Any]] = {
  "lenet": images.lenet,
  "resnet20": deep.resnet20,
  "vgg11": deep.vgg11,
  "cnn": images.cnn,
  "mlp300": images.dense(300),
  "mlp600": images.dense(600),
  "logistic": images.logistic,
}
CIFAR_MODELS = ("lenet", "resnet20", "vgg11")
_DIRICHLET = {  # the learning rates of [000]
  name: Defaults(
    total_rounds=1000, clients_per_round=10, client_batch_size=64, client_learning_rate=rate
  )
  for name, rate in (("lenet", 0.01), ("resnet20", 0.1), ("vgg11", 0.01))
}
_TWO_CLASS = Defaults(  # 25 of 50 clients take 10 steps of 256 ([002]): 2.5 epochs of 1,000 images
  total_rounds=200,
  clients_per_round=25,
  client_batch_size=256,
  client_learning_rate=0.05,
  client_epochs_per_round=2,
)
# Of the pixels (0 to 255) of the training images, by channel.
_CIFAR10 = ([125.3, 123.0, 113.9], [63.0, 62.1, 66.7])
_CIFAR100 = ([129.3, 124.1, 112.4], [68.2, 65.4, 70.4])


def load_cifar10_dirichlet(
  *,
  seed: int,
  num_clients: int = 100,
  alpha: float = 0.0,
  model: str = "lenet",
  data: str = "real",
  data_dir: str | None = None,
  max_examples_per_client: int | None = None,
) -> Task:
  """CIFAR-10 as in [000]: random crops (4 pixels of padding) and flips, normalised by channel.

  Args:
    seed: of the split and the initial weights.
    num_clients: how many clients; of equal sizes.
    alpha: the Dirichlet law's concentration; 0 gives each client one class, 10000 is IID.
    model: lenet, resnet20 or vgg11 (group normalisation).
    data: real or synthetic.
    data_dir: the folder with `tfds/cifar10`.
    max_examples_per_client: only so many examples of each.
  """
  checks.one_of("model", model, CIFAR_MODELS)
  return _split(
    "cifar10_dirichlet", "cifar10", 10, (32, 32, 3), f"dirichlet:{alpha}", seed, num_clients, model,
    data, data_dir, max_examples_per_client, _DIRICHLET[model], moments=_CIFAR10, padding=4,
  )  # fmt: skip


def load_cifar100_dirichlet(
  *,
  seed: int,
  num_clients: int = 100,
  alpha: float = 0.0,
  model: str = "lenet",
  data: str = "real",
  data_dir: str | None = None,
  max_examples_per_client: int | None = None,
) -> Task:
  """CIFAR-100 as in [000]; the options are those of `load_cifar10_dirichlet`."""
  checks.one_of("model", model, CIFAR_MODELS)
  return _split(
    "cifar100_dirichlet", "cifar100", 100, (32, 32, 3), f"dirichlet:{alpha}", seed, num_clients, model,
    data, data_dir, max_examples_per_client, _DIRICHLET[model], moments=_CIFAR100, padding=4,
  )  # fmt: skip


def load_cifar10_two_class(
  *,
  seed: int,
  num_clients: int = 50,
  partition: str = "classes:2",
  model: str = "mlp600",
  data: str = "real",
  data_dir: str | None = None,
  max_examples_per_client: int | None = None,
) -> Task:
  """CIFAR-10 as in [002]: at most two classes a client, two hidden layers of 600.

  Args:
    seed: of the split and the initial weights.
    num_clients: how many clients; of equal sizes.
    partition: classes:2, or iid for [002]'s homogeneous case.
    model: mlp600, lenet or resnet20.
    data: real or synthetic.
    data_dir: the folder with `tfds/cifar10`.
    max_examples_per_client: only so many examples of each.
  """
  checks.one_of("model", model, ("mlp600", "lenet", "resnet20"))
  return _split(
    "cifar10_two_class", "cifar10", 10, (32, 32, 3), partition, seed, num_clients, model, data,
    data_dir, max_examples_per_client, _TWO_CLASS, moments=_CIFAR10,
  )  # fmt: skip


def load_fashion_mnist(
  *,
  seed: int,
  num_clients: int = 50,
  partition: str = "classes:2",
  model: str = "mlp300",
  data: str = "real",
  data_dir: str | None = None,
  max_examples_per_client: int | None = None,
) -> Task:
  """Fashion-MNIST as in [002]: at most two classes a client, two hidden layers of 300.

  Args:
    seed: of the split and the initial weights.
    num_clients: how many clients; of equal sizes.
    partition: classes:2, or iid for [002]'s homogeneous case.
    model: mlp300, cnn or logistic.
    data: real or synthetic.
    data_dir: the folder with `tfds/fashion_mnist`.
    max_examples_per_client: only so many examples of each.
  """
  checks.one_of("model", model, ("mlp300", "cnn", "logistic"))
  return _split(
    "fashion_mnist", "fashion_mnist", 10, (28, 28, 1), partition, seed, num_clients, model, data,
    data_dir, max_examples_per_client, _TWO_CLASS,
  )  # fmt: skip


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
  """EMNIST balanced (47 classes) as in [004]: logistic regression, 20 of 400 clients a round.

  Args:
    seed: of the split and the initial weights.
    num_clients: how many clients.
    similarity: percentage of each client's examples that are IID; the rest is sorted by label.
    model: logistic or cnn.
    data: real or synthetic.
    data_dir: the folder with `tfds/emnist`.
    max_examples_per_client: only so many examples of each.
  """
  checks.one_of("model", model, ("logistic", "cnn"))
  checks.number("similarity", similarity, at_least=0, at_most=100)
  defaults = Defaults(
    total_rounds=200, clients_per_round=20, client_batch_size=56, client_learning_rate=0.1
  )
  return _split(
    "emnist_sorted", "emnist/balanced", 47, (28, 28, 1), f"similarity:{similarity}", seed, num_clients,
    model, data, data_dir, max_examples_per_client, defaults,
  )  # fmt: skip


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
  defaults = Defaults(
    total_rounds=200, clients_per_round=10, client_batch_size=20, client_learning_rate=0.05
  )
  return _split(
    f"tfds:{dataset}", dataset, 10, (28, 28, 1), partition, seed, num_clients, model, data, data_dir,
    max_examples_per_client, defaults,
  )  # fmt: skip


def _split(name, dataset, classes, shape, how, seed, num_clients, model, data, data_dir, limit,
           defaults, moments=None, padding=None) -> Task:  # fmt: skip
  checks.one_of("model", model, MODELS)
  checks.one_of("data", data, DATA)
  checks.integer("num_clients", num_clients, at_least=1)
  divide = partition.parse(how)
  details = {"partition": how, "model": model, "max_examples_per_client": limit}
  if data == "synthetic":
    source = synthetic.synthetic_source(
      synthetic.images(shape, classes, _law(how, classes)),
      seed=seed,
      num_clients=num_clients,
      examples=500 if moments else 200,
      max_examples=limit,
      spread=0.0,
      test_clients=10,
    )
    train, test = _pipelines(shape, moments, padding)
    prepare = lambda raw: (raw["image"], raw["label"].astype(np.int32))  # noqa: E731
    return task_of(
      name, source, _model(model, shape, classes, seed), prepare, defaults, details,
      augment=train, finish=test,
    )  # fmt: skip
  real = tfds_arrays.read(dataset, cache.root(data_dir))
  shape, classes = real.train.images.shape[1:], real.classes
  parts = [part[:limit] for part in divide(real.train.labels, num_clients, seed)]
  train, test = _pipelines(shape, moments, padding)
  clients = ArrayClients.of(tuple(real.train), parts, train)
  return Task(
    name=name,
    model=_model(model, shape, classes, seed),
    clients=clients.ids,
    dataset=clients.dataset,
    evaluation=lambda batch_size: ordered_batches(tuple(real.test), batch_size, test),
    total_examples=clients.total_examples,
    defaults=defaults,
    data="real",
    details={"data": "real", "num_clients": num_clients, **details},
  )


def _model(name: str, shape: tuple[int, int, int], classes: int, seed: int) -> Model:
  return classifier(
    lambda: MODELS[name](shape, classes),
    tf.TensorSpec([None, *shape], tf.float32),
    seed,
    None if name == "logistic" else images.PENULTIMATE,
  )


def _pipelines(shape, moments, padding):
  """What is done to training batches and to test batches."""
  scale = augment.standardise_by(*moments) if moments else _unit

  def train(batch, seed):
    pixels = batch[0]
    if padding is not None:
      pixels = augment.random_crop_and_flip(pixels, shape[0], padding, seed)
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
