"""Google Landmarks v2 and iNaturalist, fetched and written as TFF's files: a TFRecord file for each user.

They come to hundreds of gigabytes, so a run does not fetch them by itself: `data.py fetch gldv2` does. One
archive after the other is fetched, checked, searched for the pictures that count, and deleted; what is done
stays done when the command breaks off, and the next one goes on.
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
  """Something to fetch; `md5` is its checksum, or the address of it. `member`: a file in a ZIP archive."""

  url: str
  md5: str
  member: str = ""


class Recipe(NamedTuple):
  """What a data set is made of.

  Attributes:
    folder: where TFF's loader looks for it.
    user: the column of the training table that names the user.
    train: the table of training pictures: user, image_id, class.
    test: the table of test pictures.
    archives: what holds the pictures.
  """

  folder: str
  user: str
  train: File
  test: File
  archives: tuple[File, ...]


def recipe(name: str) -> Recipe:
  """The recipe of gldv2 or inaturalist, with the addresses and checksums that TFF has."""
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
  """Fetches a data set into `root`/folder unless it is there."""
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
      f"{lacking} of {len(wanted)} pictures of {parts.folder} are in none of its archives; they may have "
      f"changed since: see {work}."
    )
  by_user: dict[str, list[dict[str, str]]] = collections.defaultdict(list)
  for row in train:
    if row[parts.user] != "NA":  # iNaturalist's table serves several splits
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
  """Fetches a file; one with another checksum is refused, and fetched again the next time."""
  path, expected = _fetched(file, work, wanted), file.md5
  if "/" in expected:
    expected = _fetched(File(expected, ""), work, wanted).read_text().split()[0]
  with open(path, "rb") as stream:
    found = hashlib.file_digest(stream, "md5").hexdigest()
  if found != expected:
    path.unlink()
    raise DataError(
      f"{file.url} came with the checksum {found}, expected {expected}; run again to fetch it anew."
    )
  return path


def _table(file: File, work: pathlib.Path, wanted: pathlib.Path) -> list[dict[str, str]]:
  path = _checked(file, work, wanted)
  if not file.member:
    return list(csv.DictReader(path.read_text(encoding="utf-8").splitlines()))
  with zipfile.ZipFile(path) as archive, archive.open(file.member) as stream:
    return list(csv.DictReader(io.TextIOWrapper(stream, encoding="utf-8")))


def _take_images(archive: File, wanted: set[str], work: pathlib.Path, final: pathlib.Path) -> None:
  """Takes the pictures that count out of an archive, once."""
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
      picture = (images / f"{row['image_id']}.jpg").read_bytes()
      example = vision_datasets_utils.create_example(picture, int(row["class"]))
      writer.write(example.SerializeToString())
