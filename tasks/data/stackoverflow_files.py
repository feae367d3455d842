"""Stack Overflow's clients and vocabulary: TFF's SQLite file and its files of word and tag counts.

`stackoverflow.sqlite` and the plain count files are enough; with `vocab_from_data` only the first is needed.
"""

import collections
import functools
import json
import pathlib
from typing import NamedTuple

import tensorflow_federated as tff

from tasks.data import downloads, folders, sqlite, synthetic
from tasks.data.folders import DataError
from tasks.data.sources import Source, tff_source

TEST_EXAMPLES = 10_000
USERS = 342_477
_WORD_SHA = "1dc00256d6e527c54b9756d968118378ae14e6692c0b3b6cad470cdd3f0c519c"
_TAG_SHA = "6fe281cec490d9384a290d560072438e7e2b377bbb823876ce7bd6f82696772d"


class Posts(NamedTuple):
  """The users' posts, and the most frequent words and tags, most frequent first."""

  source: Source
  words: list[str]
  tags: list[str]


def real_posts(
  root: pathlib.Path,
  *,
  num_clients: int | None,
  max_examples: int | None,
  vocab_from_data: bool,
  num_words: int,
  num_tags: int,
) -> Posts:
  """Opens TFF's files below `root`, downloading those that are missing.

  Args:
    root: the data folder, which contains `tff/`.
    num_clients: keep only this many users, those with the most posts.
    max_examples: upper bound on a user's examples.
    vocab_from_data: count the words and tags of the training split instead of reading the count files.
    num_words: size of the vocabulary.
    num_tags: number of tags; 0 if the task needs none.
  """
  source = real(root, num_clients, max_examples)
  if vocab_from_data:
    return Posts(source, *vocabulary_of(source, num_words, num_tags))
  words = read_word_counts(root / "tff" / "stackoverflow.word_count", num_words)
  tags = read_tag_counts(root / "tff" / "stackoverflow.tag_count", num_tags) if num_tags else []
  return Posts(source, words, tags)


def synthetic_posts(
  *, seed: int, num_clients: int | None, max_examples: int | None, num_words: int, num_tags: int
) -> Posts:
  """Generates posts with the schema of the real ones; the arguments are those of `real_posts`."""
  words = [f"word{k}" for k in range(num_words)]
  tags = [f"tag{k}" for k in range(num_tags)]
  source = synthetic.synthetic_source(
    synthetic.posts(words, tags),
    seed=seed,
    num_clients=num_clients or USERS,
    examples=100,
    max_examples=max_examples,
    test_clients=TEST_EXAMPLES // 100,
  )
  return Posts(source, words, tags)


def real(root: pathlib.Path, num_clients: int | None = None, limit: int | None = None) -> Source:
  """Returns the users of TFF's file."""
  path = root / "tff" / "stackoverflow.sqlite"
  downloads.tff_database(path, sqlite.check)
  return tff_source(
    path,
    functools.partial(tff.simulation.datasets.stackoverflow.load_data, cache_dir=str(path.parent)),
    splits=("train", "test"),
    num_clients=num_clients,
    max_examples=limit,
    max_test_examples=TEST_EXAMPLES,
  )


def vocabulary_of(source: Source, num_words: int, num_tags: int) -> tuple[list[str], list[str]]:
  """Returns the words and the tags that most users use, counted over at most 10,000 training users."""
  words: collections.Counter[bytes] = collections.Counter()
  tags: collections.Counter[bytes] = collections.Counter()
  for client in source.clients[: min(len(source.clients), 10_000)]:
    raw = source.read(client)
    words.update({word for line in raw["tokens"] for word in line.split()})
    tags.update({tag for line in raw["tags"] for tag in line.split(b"|") if tag})

  def most_common(counts: collections.Counter[bytes], number: int) -> list[str]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [word.decode(errors="replace") for word, _ in ordered[:number]]

  return most_common(words, num_words), most_common(tags, num_tags)


def read_word_counts(path: pathlib.Path, number: int) -> list[str]:
  """Reads the first words of TFF's word counts, a plain file with a word and its count on each line."""
  words = []
  for place, line in enumerate(_text(path, _WORD_SHA).splitlines(), 1):
    parts = line.split()
    if len(parts) != 2 or not parts[1].isdecimal():
      raise DataError(f"{path}, line {place}: expected a word and its count; found {line[:40]!r}.")
    words.append(parts[0])
    if len(words) == number:
      break
  return words


def read_tag_counts(path: pathlib.Path, number: int) -> list[str]:
  """Reads the most frequent tags of TFF's tag counts, a JSON file."""
  try:
    counts = json.loads(_text(path, _TAG_SHA))
    return sorted(counts, key=lambda tag: -counts[tag])[:number]
  except (json.JSONDecodeError, TypeError, AttributeError) as error:
    raise DataError(
      f"{path}: expected a JSON object of tags and counts; found something else ({error}). "
      "Delete the file and fetch it again."
    ) from error


def _text(path: pathlib.Path, sha256: str) -> str:
  try:
    downloads.tff_counts(path, sha256)
  except DataError as error:
    raise DataError(
      f"{str(error).removesuffix('.')}; or build the vocabulary from the data with --vocab_from_data."
    ) from error
  folders.readable(path)
  try:
    return path.read_text(encoding="utf-8")
  except UnicodeDecodeError as error:
    raise DataError(
      f"{path} is not UTF-8 text (byte {error.start}). Delete the file and fetch it again."
    ) from error
