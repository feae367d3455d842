"""Photos by user from TFF: Google Landmarks v2 (landmarks-user-160k) and iNaturalist (user-120k).

TFF stores JPEG images and their classes in a TFRecord file per user and one for testing. An image is scaled
to a square a little larger than the model's input, which is then cropped from it: at random for training,
in the middle for testing (GHBM; Hsu et al. 2020).
"""

import dataclasses
import functools
import pathlib
import struct
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf

from tasks.data import augmentation, folders, synthetic
from tasks.data.folders import DataError
from tasks.data.sources import DATA, Raw, Source, evaluation_batch, task_from_source
from tasks.models import deep, images
from tasks.models.classification import classifier
from tasks.task import Defaults, Task
from tff_momentum import validation
from tff_momentum.models.model import Model

MODELS: dict[str, images.BuildModel] = {
  "mobilenet_v2": deep.mobilenet_v2,
  "vit_b16": deep.vit_b16,
}
_WEIGHTS = "keras/mobilenet_v2_weights_tf_dim_ordering_tf_kernels_1.0_224_no_top.h5"


class Files(NamedTuple):
  """A data set: the name of TFF's folder, its numbers of classes and users, and a median user's images."""

  folder: str
  classes: int
  users: int
  examples: int


FILES = {
  "gldv2": Files("gld160k", 2028, 1262, 130),
  "inaturalist": Files("USER_120K", 1203, 9275, 13),
}


def load(
  name: str,
  *,
  seed: int,
  model: str = "mobilenet_v2",
  data: str = "real",
  data_dir: str | None = None,
  num_clients: int | None = None,
  max_examples_per_client: int | None = None,
  image_size: int = 224,
  pretrained: bool = False,
) -> Task:
  """Loads landmarks by photographer (1,262 users, 2,028 classes) or species by observer (9,275; 1,203).

  Args:
    name: gldv2 or inaturalist.
    seed: seed of the initial weights and the synthetic data.
    model: mobilenet_v2 (group normalisation) or vit_b16.
    data: real or synthetic.
    data_dir: the folder that contains `tff/gld160k/` or `tff/USER_120K/`, with `train/` and `test.tfRecord`.
    num_clients: keep only this many users, the first ones; synthetic data has any number.
    max_examples_per_client: upper bound on a client's images.
    image_size: side of the model's input.
    pretrained: start MobileNetV2 from Keras's ImageNet weights, a file in the folder `keras/` of `data_dir`.

  Returns:
    The task.

  Raises:
    ValueError: an option is invalid, or (`DataError`) the data is missing or damaged.
  """
  validation.one_of("model", model, MODELS)
  validation.one_of("data", data, DATA)
  size, limit = validation.integer("image_size", image_size, at_least=32), max_examples_per_client
  for option, value in (("num_clients", num_clients), ("max_examples_per_client", limit)):
    if value is not None:
      validation.integer(option, value, at_least=1)
  if size % 16 and model == "vit_b16":
    raise ValueError(f"image_size must be a multiple of 16 for vit_b16; found {size}.")
  files, classes = FILES[name], FILES[name].classes
  root, larger = folders.root(data_dir), size + size // 8
  evaluation = None
  if data == "synthetic":
    source = synthetic.synthetic_source(
      synthetic.images((larger, larger, 3), classes, synthetic.class_law(5.0, classes)),
      seed=seed,
      num_clients=num_clients or files.users,
      examples=files.examples,
      max_examples=limit,
      test_clients=2,
    )
  else:
    source, evaluation = _real(root / "tff" / files.folder, larger, num_clients, limit)

  def train(batch: augmentation.Batch, seed: tf.Tensor) -> augmentation.Batch:
    cut = augmentation.random_crop_and_flip(batch[0], size, 0, seed)
    return tf.cast(cut, tf.float32) / 127.5 - 1, batch[1]

  def test(batch: augmentation.Batch) -> augmentation.Batch:
    return tf.cast(augmentation.central_crop(batch[0], size), tf.float32) / 127.5 - 1, batch[1]

  shape = (size, size, 3)
  built = classifier(
    lambda: MODELS[model](shape, classes),
    tf.TensorSpec([None, *shape], tf.float32),
    seed,
    images.PENULTIMATE,
  )
  task = task_from_source(
    name,
    source,
    _pretrained(built, model, shape, root) if pretrained else built,
    lambda raw: (raw["image"], raw["label"].astype(np.int32)),
    Defaults(
      total_rounds=3000,
      clients_per_round=10,
      client_batch_size=64,
      client_learning_rate=0.1 if model == "mobilenet_v2" else 0.03,
      client_epochs_per_round=5,
    ),
    {
      "model": model,
      "image_size": size,
      "pretrained": pretrained,
      "max_examples_per_client": limit,
    },
    augment=train,
    finish=test,
  )
  if evaluation is None:
    return task
  return dataclasses.replace(
    task,
    evaluation=lambda wanted: evaluation(evaluation_batch(built, wanted)).map(
      lambda *batch: test(batch)
    ),
  )


def _real(
  folder: pathlib.Path, side: int, num_clients: int | None, limit: int | None
) -> tuple[Source, Callable[[int], tf.data.Dataset]]:
  """Returns the users' files as a source, and the test file, which is too large to cache, as batches."""
  train, test = folder / "train", folder / "test.tfRecord"
  for path in (train, test):
    if not path.exists():
      raise folders.missing(
        f"TFF's {folder.name}",
        path,
        "hundreds of gigabytes are downloaded on request only: python experiments/data.py fetch",
        "the addresses in tasks/data/gldv2_inaturalist_download.py with that command",
      )
  users = sorted(path.name for path in train.iterdir() if path.is_file())[:num_clients]
  if not users:
    raise DataError(f"{train} has no clients; expected a TFRecord file per user.")
  sizes = [min(count_records(train / user), limit or 2**31) for user in users]

  @functools.partial(tf.function, input_signature=[tf.TensorSpec([], tf.string)])
  def read(path):
    data = tf.data.TFRecordDataset(path).take(limit or -1).map(functools.partial(_decode, side))
    return data.batch(max(sizes)).get_single_element()

  def read_user(user: str) -> Raw:
    try:
      image, label = read(str(train / user))
    except tf.errors.OpError as error:
      reason = " ".join(error.message.split())[:120]
      raise DataError(
        f"{train / user} cannot be read as this data set ({reason}). Delete the folder and fetch it again."
      ) from error
    return {"image": image.numpy(), "label": label.numpy()}

  def evaluation(batch_size: int) -> tf.data.Dataset:
    return (
      tf.data.TFRecordDataset(str(test)).map(functools.partial(_decode, side)).batch(batch_size)
    )

  source = Source("real", users, sum(sizes), read_user, lambda: read_user(users[0]))
  source.read(users[0])
  return source, evaluation


def count_records(path: pathlib.Path) -> int:
  """Counts the records of a TFRecord file without reading them.

  Raises:
    DataError: the file is truncated or empty.
  """
  count, end = 0, path.stat().st_size
  with open(path, "rb") as file:
    while file.tell() < end:
      head = file.read(12)
      length = struct.unpack("<Q", head[:8])[0] if len(head) == 12 else 2**62
      if file.tell() + length + 4 > end:
        raise DataError(
          f"{path} is truncated after {count} examples. Delete the folder and fetch it again."
        )
      file.seek(length + 4, 1)
      count += 1
  if count == 0:
    raise DataError(
      f"{path} has no examples; expected at least one. Delete the folder and fetch it again."
    )
  return count


def _decode(side: int, record: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
  parsed = tf.io.parse_single_example(
    record,
    {
      "image/encoded_jpeg": tf.io.FixedLenFeature([], tf.string),
      "class": tf.io.FixedLenFeature([], tf.int64),
    },
  )
  image = tf.io.decode_jpeg(parsed["image/encoded_jpeg"], channels=3)
  scaled = tf.image.resize(image, (side, side), antialias=True)
  return tf.cast(tf.clip_by_value(scaled, 0, 255), tf.uint8), tf.cast(parsed["class"], tf.int32)


def _pretrained(model: Model, name: str, shape: images.Shape, root: pathlib.Path) -> Model:
  """Returns the model with Keras's ImageNet weights in all layers but the last."""
  if name != "mobilenet_v2":
    raise ValueError(
      "pretrained must be False for vit_b16, because Keras does not publish ImageNet weights for it."
    )
  path = root / _WEIGHTS
  if not path.exists():
    raise folders.missing(
      "MobileNetV2's ImageNet weights",
      path,
      "it is not downloaded automatically",
      f"https://storage.googleapis.com/tensorflow/keras-applications/mobilenet_v2/{path.name}",
    )
  keras = tf.keras.applications.MobileNetV2(shape, include_top=False, weights=str(path))
  body = tuple(weight.numpy() for weight in keras.trainable_weights)
  return dataclasses.replace(model, initial_weights=body + model.initial_weights[len(body) :])
