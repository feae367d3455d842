"""Downloads Google Landmarks v2 and iNaturalist and writes them in TFF's format, a TFRecord file per user.

The archives have hundreds of gigabytes, so a run never downloads them by itself; `data.py fetch gldv2` does.
Each archive is downloaded, checked, searched for the images that the data set uses, and deleted. An
interrupted command continues with the next archive when it is run again.
"""

import collections
import csv
import hashlib
import io
import pathlib
import shutil
import tarfile
import zipfile
from collections.abc import Iterable
from typing import NamedTuple

import tensorflow as tf
import tqdm
from tensorflow_federated.python.simulation.datasets import (
  gldv2,
  inaturalist,
  vision_datasets_utils,
)

from tasks.data import downloads
from tasks.data.folders import DataError


class File(NamedTuple):
  """A file to download.

  Attributes:
    url: its address.
    md5: its checksum, or the address of a file with the checksum.
    member: if the file is a ZIP archive, the member that is needed.
  """

  url: str
  md5: str
  member: str = ""


class Recipe(NamedTuple):
  """The files that a data set is made from.

  Attributes:
    folder: the folder in which TFF's loader looks for the data set.
    user: the column of the training table that names the user.
    train: the table of training images: user, image_id, class.
    test: the table of test images.
    archives: the archives of the images.
  """

  folder: str
  user: str
  train: File
  test: File
  archives: tuple[File, ...]


def recipe(name: str) -> Recipe:
  """Returns the recipe of gldv2 or inaturalist, with the addresses and checksums that TFF lists."""
  if name == "gldv2":
    bundle, where = gldv2.FED_GLD_SPLIT_FILE_BUNDLE, gldv2.GLD_SHARD_BASE_URL
    tables = [
      File(
        gldv2.FED_GLD_SPLIT_FILE_DOWNLOAD_URL,
        gldv2.FED_GLD_SPLIT_FILE_BUNDLE_MD5_CHECKSUM,
        f"{bundle}/{table}",
      )
      for table in (gldv2.FED_GLD_TRAIN_SPLIT_FILE, gldv2.FED_GLD_TEST_SPLIT_FILE)
    ]
    archives = (
      File(f"{where}/train/images_{k:03d}.tar", f"{where}/md5sum/train/md5.images_{k:03d}.txt")
      for k in range(gldv2.NUM_SHARD_TRAIN)
    )
    return Recipe(gldv2.FED_GLD_CACHE, "user_id", tables[0], tables[1], tuple(archives))
  return Recipe(
    "USER_120K",
    "user_120k",
    File(inaturalist.INAT_TRAIN_DOWNLOAD_URL, inaturalist.INAT_TRAIN_SPLIT_FILE_MD5_CHECKSUM),
    File(inaturalist.INAT_TEST_DOWNLOAD_URL, inaturalist.INAT_TEST_SPLIT_FILE_MD5_CHECKSUM),
    (
      File(inaturalist.INAT_TRAIN_IMAGE_URL, inaturalist.INAT_TRAIN_IMAGE_MD5_CHECKSUM),
      File(inaturalist.INAT_TEST_IMAGE_URL, inaturalist.INAT_TEST_IMAGE_MD5_CHECKSUM),
    ),
  )


def build(parts: Recipe, root: pathlib.Path) -> None:
  """Downloads a data set into `root`/folder unless that exists.

  Args:
    parts: the recipe.
    root: the folder of TFF's data sets.

  Raises:
    DataError: a file cannot be downloaded, or has the wrong checksum, or an image is in no archive.
  """
  final = root / parts.folder
  if final.exists():
    return
  work = root / f"{parts.folder}.work"
  images = work / "images"
  images.mkdir(parents=True, exist_ok=True)
  train, test = _table(parts.train, work, final), _table(parts.test, work, final)
  wanted = {row["image_id"] for row in (*train, *test)}
  for archive in tqdm.tqdm(parts.archives, desc="archives", unit="archive"):
    _take_images(archive, wanted, work, final)
  lacking = sum(not (images / f"{image}.jpg").exists() for image in wanted)
  if lacking:
    raise DataError(
      f"{parts.folder}: expected {len(wanted)} images in its archives; found {len(wanted) - lacking}. The "
      f"archives may have changed; see {work}."
    )
  by_user: dict[str, list[dict[str, str]]] = collections.defaultdict(list)
  for row in train:
    if row[parts.user] != "NA":  # iNaturalist's table describes several splits
      by_user[row[parts.user]].append(row)
  made = work / "records"
  shutil.rmtree(made, ignore_errors=True)
  (made / "train").mkdir(parents=True)
  for user, rows in by_user.items():
    _write_records(made / "train" / user, rows, images)
  _write_records(made / "test.tfRecord", test, images)
  made.replace(final)
  shutil.rmtree(work)


def _fetched(file: File, work: pathlib.Path, wanted: pathlib.Path) -> pathlib.Path:
  path = work / file.url.rsplit("/", 1)[1]
  downloads.download(file.url, path, what=path.name, wanted=wanted)
  return path


def _checked(file: File, work: pathlib.Path, wanted: pathlib.Path) -> pathlib.Path:
  """Downloads a file and checks it; a damaged file is deleted, so that the next call downloads it again."""
  path, expected = _fetched(file, work, wanted), file.md5
  if "/" in expected:
    expected = _fetched(File(expected, ""), work, wanted).read_text().split()[0]
  with open(path, "rb") as stream:
    found = hashlib.file_digest(stream, "md5").hexdigest()
  if found != expected:
    path.unlink()
    raise DataError(
      f"{file.url}: expected the checksum {expected}; found {found}. Run again to download the file again."
    )
  return path


def _table(file: File, work: pathlib.Path, wanted: pathlib.Path) -> list[dict[str, str]]:
  path = _checked(file, work, wanted)
  if not file.member:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
  with zipfile.ZipFile(path) as archive, archive.open(file.member) as stream:
    return list(csv.DictReader(io.TextIOWrapper(stream, encoding="utf-8")))


def _take_images(archive: File, wanted: set[str], work: pathlib.Path, final: pathlib.Path) -> None:
  """Extracts the images that the data set uses from an archive, unless that was done before."""
  done = work / (archive.url.rsplit("/", 1)[1] + ".done")
  if done.exists():
    return
  path = _checked(archive, work, final)
  with tarfile.open(path) as members:
    for member in members:
      name = pathlib.PurePosixPath(member.name)
      source = members.extractfile(member) if member.isfile() else None
      if source is not None and name.suffix == ".jpg" and name.stem in wanted:
        part = work / "images" / f"{name.stem}.part"
        part.write_bytes(source.read())
        part.replace(part.with_suffix(".jpg"))
  done.touch()
  path.unlink()


def _write_records(
  path: pathlib.Path, rows: Iterable[dict[str, str]], images: pathlib.Path
) -> None:
  with tf.io.TFRecordWriter(str(path)) as writer:
    for row in rows:
      image = (images / f"{row['image_id']}.jpg").read_bytes()
      example = vision_datasets_utils.create_example(image, int(row["class"]))
      writer.write(example.SerializeToString())
