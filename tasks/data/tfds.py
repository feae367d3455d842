"""TFDS data sets as arrays, read with TFDS's own code."""

import pathlib
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_datasets as tfds

from tasks.data import downloads
from tasks.data.folders import DataError, missing


class ImageSplit(NamedTuple):
  """The images of a split as they are stored, and their labels (int32)."""

  images: np.ndarray
  labels: np.ndarray


class ImageData(NamedTuple):
  """An image classification data set."""

  train: ImageSplit
  test: ImageSplit
  classes: int


def builder(name: str, root: pathlib.Path) -> tfds.core.DatasetBuilder:
  """Returns TFDS's builder of a data set, which is downloaded and prepared if necessary.

  Args:
    name: the name in TFDS.
    root: the data folder, which contains `tfds/`.

  Raises:
    DataError: there is no such data set, or it cannot be downloaded.
  """
  folder = root / "tfds"
  try:
    made = tfds.builder(name, data_dir=str(folder), try_gcs=False)
  except (tfds.core.DatasetNotFoundError, ValueError) as error:
    raise DataError(
      f"There is no TFDS data set {name!r}: expected a name such as mnist, cifar10 or svhn_cropped."
    ) from error
  if not made.info.splits:
    page = f"https://www.tensorflow.org/datasets/catalog/{name.partition('/')[0]}"
    address = f"TFDS (`tfds.load({name!r}, data_dir=...)`; {page})"
    reason = downloads.offline()
    if reason:  # TFDS itself would keep trying for minutes
      raise missing(f"TFDS's {name}", folder / name, reason, address)
    try:
      made.download_and_prepare()
    except Exception as error:  # TFDS's downloaders raise many types
      reason = " ".join(str(error).split())[:80] or type(error).__name__
      raise missing(f"TFDS's {name}", folder / name, reason, address) from error
  return made


def read(name: str, root: pathlib.Path) -> ImageData:
  """Reads all images of the training and the test split.

  Args:
    name: the name in TFDS.
    root: the data folder, which contains `tfds/`.

  Raises:
    DataError: the data set is missing or damaged, or is not an image classification data set.
  """
  made = builder(name, root)
  features, splits = made.info.features, made.info.splits
  if "image" not in features or "label" not in features:
    raise DataError(
      f"TFDS's {name} is not an image classification data set: expected the features image and label; found "
      f"{', '.join(features)}."
    )
  test = next((split for split in ("test", "validation") if split in splits), None)
  if "train" not in splits or test is None:
    raise DataError(
      f"TFDS's {name}: expected the splits train and test (or validation); found {', '.join(splits)}."
    )
  if None in features["image"].shape:
    raise DataError(f"TFDS's {name}: expected images of one size; found {features['image'].shape}.")
  return ImageData(
    _image_split(made, "train"), _image_split(made, test), features["label"].num_classes
  )


def _image_split(made: tfds.core.DatasetBuilder, split: str) -> ImageSplit:
  expected = made.info.splits[split].num_examples
  try:
    data = made.as_dataset(split=split, shuffle_files=False, batch_size=-1)
    part = ImageSplit(data["image"].numpy(), data["label"].numpy().astype(np.int32))
  except (tf.errors.OpError, OSError) as error:
    reason = " ".join(str(getattr(error, "message", error)).split())[:120]
    raise DataError(
      f"The split {split} of {made.data_path} cannot be read ({reason}). Delete the folder and fetch it "
      "again."
    ) from error
  if len(part.labels) != expected:
    raise DataError(
      f"The split {split} of {made.data_path}: expected {expected} examples; found {len(part.labels)}. "
      "Delete the folder and fetch it again."
    )
  return part
