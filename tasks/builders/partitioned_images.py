"""Image classification on a centralised TFDS data set that is partitioned over clients."""

import dataclasses
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tasks.data import augmentation, folders, partitions, synthetic, tfds
from tasks.data.augmentation import Batch
from tasks.data.batches import ArrayClients, ordered_batches
from tasks.data.sources import DATA, Raw, task_from_source
from tasks.models import deep, images
from tasks.models.classification import classifier
from tasks.models.images import BuildModel, Shape
from tasks.task import Defaults, Task
from tff_momentum import validation
from tff_momentum.models.model import Model

MODELS: dict[str, BuildModel] = {
  "lenet": images.lenet,
  "lenet5": images.lenet5,
  "resnet20": deep.resnet20,
  "vgg11": deep.vgg11,
  "cnn": images.cnn,
  "mlp300": images.dense(300),
  "mlp600": images.dense(600),
  "logistic": images.logistic,
}


class ImageSet(NamedTuple):
  """A centralised data set of images.

  Attributes:
    dataset: the name in TFDS.
    classes: the number of classes of the synthetic stand-in; real data brings its own.
    shape: (height, width, channels) of the synthetic stand-in.
    moments: mean and standard deviation of the training pixels (0 to 255) per channel, used to standardise
      images. Without them, pixels are scaled to [0, 1].
  """

  dataset: str
  classes: int
  shape: Shape
  moments: tuple[list[float], list[float]] | None = None


CIFAR10 = ImageSet("cifar10", 10, (32, 32, 3), ([125.3, 123.0, 113.9], [63.0, 62.1, 66.7]))
CIFAR100 = ImageSet("cifar100", 100, (32, 32, 3), ([129.3, 124.1, 112.4], [68.2, 65.4, 70.4]))
FASHION_MNIST = ImageSet("fashion_mnist", 10, (28, 28, 1))
EMNIST_BALANCED = ImageSet("emnist/balanced", 47, (28, 28, 1))


@dataclasses.dataclass(frozen=True, kw_only=True)
class ImageOptions:
  """The options that all partitioned image tasks take.

  Attributes:
    seed: seed of the split, the initial weights and the synthetic data.
    num_clients: number of clients.
    partition: how the training images are split; see `partitions.parse`.
    model: a key of `MODELS`.
    data: real or synthetic.
    data_dir: the data folder.
    max_examples_per_client: upper bound on a client's examples.
    padding: if set, training images are padded by this many pixels, cropped at random and flipped.
  """

  seed: int
  num_clients: int
  partition: str
  model: str
  data: str
  data_dir: str | None
  max_examples_per_client: int | None
  padding: int | None = None


def partitioned_images_task(
  name: str, source: ImageSet, options: ImageOptions, defaults: Defaults
) -> Task:
  """Builds a task from a centralised image data set.

  Args:
    name: the task's name.
    source: the data set.
    options: the task's options.
    defaults: the defaults of the run's flags.

  Returns:
    The task.

  Raises:
    ValueError: an option is invalid, or (`DataError`) the data is missing or damaged.
  """
  validation.one_of("data", options.data, DATA)
  validation.integer("num_clients", options.num_clients, at_least=1)
  partition, limit = partitions.parse(options.partition), options.max_examples_per_client
  details = {
    "partition": options.partition,
    "model": options.model,
    "max_examples_per_client": limit,
  }
  if options.data == "synthetic":
    return task_from_source(
      name,
      synthetic.synthetic_source(
        synthetic.images(
          source.shape, source.classes, _class_law(options.partition, source.classes)
        ),
        seed=options.seed,
        num_clients=options.num_clients,
        examples=500 if source.moments else 200,
        max_examples=limit,
        spread=0.0,
        test_clients=10,
      ),
      _model(options.model, source.shape, source.classes, options.seed),
      _prepare,
      defaults,
      details,
      augment=_train_pipeline(source, source.shape[0], options.padding),
      finish=_test_pipeline(source),
    )
  real = tfds.read(source.dataset, folders.root(options.data_dir))
  height, width, channels = real.train.images.shape[1:]
  parts = partition(real.train.labels, options.num_clients, options.seed)
  clients = ArrayClients.of(
    tuple(real.train),
    [part[:limit] for part in parts],
    _train_pipeline(source, height, options.padding),
  )
  return clients.task(
    name,
    _model(options.model, (height, width, channels), real.classes, options.seed),
    lambda batch_size: ordered_batches(tuple(real.test), batch_size, _test_pipeline(source)),
    defaults,
    {"data": "real", "num_clients": options.num_clients, **details},
    "real",
    lambda client, batch_size: clients.ordered(client, batch_size, _test_pipeline(source)),
  )


def _prepare(raw: Raw) -> tuple[np.ndarray, np.ndarray]:
  return raw["image"], raw["label"].astype(np.int32)


def _model(name: str, shape: Shape, classes: int, seed: int) -> Model:
  return classifier(
    lambda: MODELS[name](shape, classes),
    tf.TensorSpec([None, *shape], tf.float32),
    seed,
    None if name == "logistic" else images.PENULTIMATE,
  )


def _scale(source: ImageSet) -> Callable[[tf.Tensor], tf.Tensor]:
  return augmentation.standardise_by(*source.moments) if source.moments else augmentation.to_unit


def _train_pipeline(
  source: ImageSet, size: int, padding: int | None
) -> Callable[[Batch, tf.Tensor], Batch]:
  scale = _scale(source)

  def train(batch: Batch, seed: tf.Tensor) -> Batch:
    pixels, labels = batch
    if padding is not None:
      pixels = augmentation.random_crop_and_flip(pixels, size, padding, seed)
    return scale(pixels), labels

  return train


def _test_pipeline(source: ImageSet) -> Callable[[Batch], Batch]:
  scale = _scale(source)
  return lambda batch: (scale(batch[0]), batch[1])


def _class_law(partition: str, classes: int) -> synthetic.ClassLaw:
  """Returns the distribution of a synthetic client's classes that comes closest to a partition."""
  kind, _, value = partition.partition(":")
  if kind == "classes":
    return synthetic.class_law(None, classes)
  # `similarity:PERCENT` becomes a Dirichlet law too: one class at 0 %, most classes at 100 %.
  return synthetic.class_law(1e4 if kind == "iid" else float(value), classes)
