"""Broken caches are found out and named in one sentence, before anything is trained on them."""

import pathlib
import sqlite3

import numpy as np
import pytest
import tensorflow as tf

import tasks
from tasks import stackoverflow
from tasks.data import downloads, sqlite
from tasks.data.folders import DataError


def example(**features):
  wrapped = {
    name: tf.train.Feature(bytes_list=tf.train.BytesList(value=[value]))
    if isinstance(value, bytes)
    else tf.train.Feature(int64_list=tf.train.Int64List(value=[value]))
    for name, value in features.items()
  }
  return tf.train.Example(features=tf.train.Features(feature=wrapped)).SerializeToString()


POST = example(creation_date=b"2016", score=1, tags=b"python|tff", title=b"a question",
               tokens=b"how do i train it", type=b"question")  # fmt: skip


def write_database(path: pathlib.Path, splits, example=POST, metadata=None):
  """splits: {split: {client: number of examples}}; metadata overrides what is told of them."""
  path.parent.mkdir(parents=True, exist_ok=True)
  db = sqlite3.connect(path)
  db.execute(
    "CREATE TABLE examples (split_name TEXT, client_id TEXT, serialized_example_proto BLOB)"
  )
  db.execute("CREATE TABLE client_metadata (client_id TEXT, split_name TEXT, num_examples INTEGER)")
  for split, clients in splits.items():
    for client, count in clients.items():
      db.executemany("INSERT INTO examples VALUES (?, ?, ?)", [(split, client, example)] * count)
      told = (metadata or {}).get(client, count)
      db.execute("INSERT INTO client_metadata VALUES (?, ?, ?)", (client, split, told))
  db.execute("CREATE INDEX by_client ON examples (client_id, split_name)")
  db.commit()
  db.close()


GOOD = {"train": {"ann": 30, "bob": 20}, "heldout": {"cy": 4}, "test": {"ann": 5, "dee": 6}}


def write_stackoverflow(folder: pathlib.Path) -> pathlib.Path:
  """A small cache of all that the tasks of Stack Overflow read; returns the database."""
  path = folder / "tff" / "stackoverflow.sqlite"
  write_database(path, GOOD)
  path.with_suffix(".word_count").write_text("how 9\ndo 8\ni 7\ntrain 3\nit 2\n")
  path.with_suffix(".tag_count").write_text('{"python": 5, "tff": 2}')
  return path


@pytest.fixture
def cache(tmp_path):
  return write_stackoverflow(tmp_path)


@pytest.fixture(autouse=True)
def no_network(monkeypatch):
  monkeypatch.setattr(downloads, "TFF_DATA", "http://127.0.0.1:9")  # nobody listens there


def load(path, name="stackoverflow", **options):
  return tasks.loader(name)(seed=0, data_dir=str(path.parent.parent), **options)


def rewrite(path, splits, **options):
  path.unlink()
  write_database(path, splits, **options)


def wrong_schema(path):
  path.unlink()
  db = sqlite3.connect(path)
  db.execute("CREATE TABLE examples (client TEXT, data BLOB)")
  db.commit()
  db.close()


def folder_instead(path):
  path.unlink()
  path.mkdir()


BROKEN = {
  "truncated": (
    lambda p: p.write_bytes(p.read_bytes()[:9000]), "is truncated: expected .* bytes; found 9,000"),
  "empty": (lambda p: p.write_bytes(b""), "is empty"),
  "wrong schema": (wrong_schema, "does not have TFF's format: expected a table examples with"),
  "wrong splits": (
    lambda p: rewrite(p, {"training": {"ann": 3}}), "expected the split 'train'; found training"),
  "HTML": (
    lambda p: p.write_text("<!DOCTYPE html><html>404</html>"), "is not a SQLite file .*DOCTYPE"),
  "unreadable": (folder_instead, "expected a file; found a folder"),
  "missing vocabulary": (
    lambda p: p.with_suffix(".word_count").unlink(), "word_count is not at .*--vocab_from_data"),
  "not UTF-8": (
    lambda p: p.with_suffix(".word_count").write_bytes(b"caf\xe9 3\n"), "is not UTF-8 text .byte 3"),
  "no clients": (lambda p: rewrite(p, {}), "has no clients"),
  "client without examples": (
    lambda p: rewrite(p, {"train": {"ann": 3, "bob": 0}, "test": {"ann": 1}}),
    "client bob of the split train has no examples"),
  "client told wrong": (
    lambda p: rewrite(p, GOOD, metadata={"ann": 31}), "ann .*: expected 31 examples; found 30"),
  "foreign examples": (
    lambda p: rewrite(p, GOOD, example=example(snippets=b"Hark!")), "cannot be read as this data set"),
  "no held-out split": (
    lambda p: rewrite(p, {"train": {"ann": 3}, "test": {"ann": 1}}), "lacks a split or a client"),
  "damaged counts": (
    lambda p: p.with_suffix(".word_count").write_text("how\n"), "line 1: expected a word and its count"),
  "missing": (lambda p: p.unlink(), "could not be downloaded .*--data_dir, .*--data=synthetic"),
}  # fmt: skip


@pytest.mark.parametrize("name", BROKEN)
def test_one_sentence_for_each_broken_cache(cache, name):
  break_it, sentence = BROKEN[name]
  break_it(cache)
  before = {p: p.read_bytes() for p in cache.parent.iterdir() if p.is_file()}
  with pytest.raises(DataError, match=sentence) as caught:
    load(cache, max_examples_per_client=None)
  assert str(caught.value).count("\n") == 0
  for path, content in before.items():  # nothing of the user's is deleted or changed
    assert path.read_bytes() == content


def test_unreadable_file(cache, monkeypatch):
  def refuse(*args, **kwargs):
    raise PermissionError(13, "Permission denied")

  monkeypatch.setattr("builtins.open", refuse)  # as root every file may be read
  with pytest.raises(DataError, match="is not readable by this user"):
    sqlite.check(cache)


def test_a_good_cache_loads_and_counts(cache):
  task = load(cache, max_examples_per_client=25)
  assert list(task.clients) == ["ann", "bob"]
  assert task.total_examples == 45
  assert task.data == "real"
  ((x, y),) = list(task.dataset("bob", np.zeros(2, np.int32), 64))
  # "how do i train it": begin, five known words; then end, then padding.
  np.testing.assert_array_equal(x[0, :7], [10_002, 1, 2, 3, 4, 5, 10_003])
  np.testing.assert_array_equal(y[0, :7], [1, 2, 3, 4, 5, 10_003, 0])
  assert sum(len(y) for _, y in task.evaluation(4)) == 11


def test_vocabulary_from_the_training_split(cache):
  cache.with_suffix(".word_count").unlink()
  task = load(cache, vocab_from_data=True)
  assert task.details["words_known"] == 5
  tags = load(cache, "stackoverflow_tag", vocab_from_data=True)
  ((bags, targets),) = list(tags.dataset("bob", np.zeros(2, np.int32), 64))
  np.testing.assert_allclose(np.sum(bags, 1), np.ones(20), rtol=1e-5)
  np.testing.assert_array_equal(np.sum(targets, 1), np.full(20, 2))


def test_tag_prediction_matches_tffs_preprocessing(cache):
  from tensorflow_federated.python.simulation.baselines.stackoverflow import (
    tag_prediction_preprocessing,
  )

  words, tags = ["how", "do", "i", "train", "it"], ["python", "tff"]
  to_ids = tag_prediction_preprocessing.build_to_ids_fn(words, tags)
  theirs = to_ids({"tokens": b"how do i train it", "title": b"a question", "tags": b"python|tff"})
  ((bags, targets),) = list(load(cache, "stackoverflow_tag").dataset("bob", np.zeros(2), 64))
  np.testing.assert_allclose(bags[0, :5], theirs[0], rtol=1e-6)
  np.testing.assert_array_equal(targets[0, :2], theirs[1])


def test_the_index_is_made_once_and_again_when_the_file_changes(cache):
  first = sqlite.index(cache, "train")
  made = cache.parent / "index" / "stackoverflow.train.npz"
  stamp = made.stat().st_mtime_ns
  again = sqlite.index(cache, "train")
  assert made.stat().st_mtime_ns == stamp
  assert list(again.ids) == list(first.ids) == ["ann", "bob"]
  assert again.size("bob") == 20
  rewrite(cache, {"train": {"eve": 2}, "test": {"eve": 1}})
  assert list(sqlite.index(cache, "train").ids) == ["eve"]
  made.write_bytes(b"nonsense")
  assert list(sqlite.index(cache, "train").ids) == ["eve"]


def test_words_are_cut_and_padded_as_tff_does(cache):
  from tensorflow_federated.python.simulation.baselines.stackoverflow import (
    word_prediction_preprocessing,
  )

  words = [f"w{k}" for k in range(stackoverflow.WORDS)]
  cache.with_suffix(".word_count").write_text("".join(f"{w} 1\n" for w in words))
  for length in (3, 19, 20, 40):
    line = " ".join([*words[:length], "unheard"]).encode()
    post = example(creation_date=b"", score=0, tags=b"", title=b"", tokens=line, type=b"answer")
    rewrite(cache, {split: {"ann": 1} for split in GOOD}, example=post)
    to_ids = word_prediction_preprocessing.build_to_ids_fn(words, stackoverflow.LENGTH)
    theirs = to_ids({"tokens": line}).numpy()
    ((x, y),) = list(load(cache).dataset("ann", np.zeros(2), 1))
    ours = np.concatenate([x[0, :1], y[0]])
    np.testing.assert_array_equal(ours, np.pad(theirs, (0, 21 - len(theirs))))
