"""GLDv2 and iNaturalist from their archives to TFF's files, on a small server with files of their format."""

import functools
import hashlib
import io
import tarfile
import zipfile

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
from tensorflow_federated.python.simulation.datasets import vision_datasets_utils

from tasks.data import gldv2_inaturalist_download
from tasks.data.folders import DataError
from tasks.data.gldv2_inaturalist_download import File, Recipe
from tests.tasks.test_downloads import serving

RNG = np.random.default_rng(0)


def jpeg():
  return tf.io.encode_jpeg(RNG.integers(0, 255, (40, 50, 3)).astype(np.uint8)).numpy()


def archive(images):
  stream = io.BytesIO()
  with tarfile.open(fileobj=stream, mode="w") as tar:
    for name, body in images.items():
      member = tarfile.TarInfo(f"0/a/b/{name}.jpg")
      member.size = len(body)
      tar.addfile(member, io.BytesIO(body))
  return stream.getvalue()


def md5(body):
  return hashlib.md5(body).hexdigest()


def gld_files():
  """Two archives, a table of two users, one of another split, and a picture that nobody asked for."""
  first = archive({"i1": jpeg(), "i2": jpeg(), "other": jpeg()})
  second = archive({"i3": jpeg(), "i4": jpeg(), "t1": jpeg()})
  stream = io.BytesIO()
  with zipfile.ZipFile(stream, "w") as bundle:
    rows = ["user_id,image_id,class", "ann,i1,3", "bob,i2,2027", "ann,i3,5", "NA,i4,1"]
    bundle.writestr("b/federated_train.csv", "\n".join(rows))
    bundle.writestr("b/test.csv", "image_id,class\nt1,7\n")
  return {
    "tables.zip": stream.getvalue(), "images_000.tar": first, "images_001.tar": second,
    "md5.images_000.txt": md5(first).encode(),
    "md5.images_001.txt": md5(second).encode() + b"  images_001.tar\n",
  }  # fmt: skip


def test_archives_become_files_that_tff_reads(tmp_path):
  files = gld_files()
  with serving(files, breaks_after=[50, None, None, 3000]) as server:
    gldv2_inaturalist_download.build(gld_at(server, files), tmp_path / "tff")
    asked = len(server.ranges)
    gldv2_inaturalist_download.build(gld_at(server, files), tmp_path / "tff")  # it is there
    assert len(server.ranges) == asked
  assert [path.name for path in (tmp_path / "tff").iterdir()] == ["gld160k"]
  # TFF 0.87's `gldv2.load_data` forgets an argument of its reader, and would download everything again.
  read = functools.partial(vision_datasets_utils.load_tfrecord, logger_tag="test")
  train = tff.simulation.datasets.FilePerUserClientData.create_from_dir(
    str(tmp_path / "tff" / "gld160k" / "train"), read
  )
  assert sorted(train.client_ids) == ["ann", "bob"]
  classes = [int(row["class"]) for row in train.create_tf_dataset_for_client("ann")]
  assert sorted(classes) == [3, 5]
  test = read(str(tmp_path / "tff" / "gld160k" / "test.tfRecord"))
  assert [int(row["class"]) for row in test] == [7]


def gld_at(server, files):
  """The recipe of these files on this server."""
  tables = md5(files["tables.zip"])
  archives = [
    File(f"{server.url}/images_00{k}.tar", f"{server.url}/md5.images_00{k}.txt") for k in range(2)
  ]
  zipped = f"{server.url}/tables.zip"
  return Recipe("gld160k", "user_id", File(zipped, tables, "b/federated_train.csv"),
                File(zipped, tables, "b/test.csv"), tuple(archives))  # fmt: skip


def test_a_wrong_checksum_is_told_and_what_was_done_stays_done(tmp_path):
  files = gld_files()
  right = files["md5.images_001.txt"]
  files["md5.images_001.txt"] = b"0" * 32
  with serving(files) as server:
    with pytest.raises(DataError, match="expected the checksum 00000000"):
      gldv2_inaturalist_download.build(gld_at(server, files), tmp_path)
    assert not (tmp_path / "gld160k").exists()
    files["md5.images_001.txt"] = right
    (tmp_path / "gld160k.work" / "md5.images_001.txt").unlink()
    del files["images_000.tar"]  # it was searched, and is not asked for again
    gldv2_inaturalist_download.build(gld_at(server, files), tmp_path)
  assert sorted(path.name for path in (tmp_path / "gld160k" / "train").iterdir()) == ["ann", "bob"]


def test_pictures_that_are_nowhere_are_counted(tmp_path):
  files = gld_files()
  files["images_001.tar"] = archive({"i3": jpeg()})
  files["md5.images_001.txt"] = md5(files["images_001.tar"]).encode()
  with (
    serving(files) as server,
    pytest.raises(DataError, match="gld160k: expected 5 images in its archives; found 3"),
  ):
    gldv2_inaturalist_download.build(gld_at(server, files), tmp_path)


def test_the_recipes_are_tffs():
  gldv2, inaturalist = (
    gldv2_inaturalist_download.recipe(name) for name in ("gldv2", "inaturalist")
  )
  assert len(gldv2.archives) == 500
  assert gldv2.archives[7].url.endswith("images_007.tar")
  assert (gldv2.folder, inaturalist.folder) == ("gld160k", "USER_120K")
  assert all(len(file.md5) == 32 for file in inaturalist.archives)
