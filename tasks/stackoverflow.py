"""Stack Overflow from TFF: the next word of posts, or the tags of posts, by user.

A file `stackoverflow.sqlite` and the plain file of word counts are enough; `vocab_from_data` does without
the second.
"""

import collections
import functools
import json
import pathlib

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tasks.data import downloads, folders, sqlite, synthetic
from tasks.data.folders import DataError
from tasks.data.sources import DATA, Raw, Source, task_of, tff_source
from tasks.models import text
from tasks.task import Defaults, Task
from tff_momentum import validation
from tff_momentum.models.keras import from_keras

WORDS, TAGS, LENGTH = 10_000, 500, 20
TEST_EXAMPLES = 10_000
USERS = 342_477
_WORD_SHA = "1dc00256d6e527c54b9756d968118378ae14e6692c0b3b6cad470cdd3f0c519c"
_TAG_SHA = "6fe281cec490d9384a290d560072438e7e2b377bbb823876ce7bd6f82696772d"


def load(
  *,
  seed: int,
  data: str = "real",
  data_dir: str | None = None,
  num_clients: int | None = None,
  max_examples_per_client: int | None = 128,
  vocab_from_data: bool = False,
  vocabulary_size: int = WORDS,
) -> Task:
  """Next-word prediction: 20 words of a sentence, a vocabulary of 10,000, 10,000 fixed test examples.

  Args:
    seed: of the initial weights, and of synthetic data.
    data: real or synthetic.
    data_dir: the folder with `tff/stackoverflow.sqlite` and `tff/stackoverflow.word_count`.
    num_clients: only so many users, those with the most posts (40,000 in the GHBM paper); all if not given.
    max_examples_per_client: only so many examples of each.
    vocab_from_data: take the most frequent words of the training split instead of the counts' file.
    vocabulary_size: words with a token of their own.
  """
  validation.one_of("data", data, DATA)
  validation.integer("vocabulary_size", vocabulary_size, at_least=1)
  source, words, _ = _open(
    data, data_dir, seed, num_clients, max_examples_per_client, vocab_from_data, vocabulary_size, 0
  )
  unknown, begin, end = vocabulary_size + 1, vocabulary_size + 2, vocabulary_size + 3
  number = {word.encode(): k + 1 for k, word in enumerate(words)}

  def prepare(raw: Raw):
    tokens = np.zeros((len(raw["tokens"]), LENGTH + 1), np.int32)
    for row, sentence in zip(tokens, raw["tokens"], strict=True):
      ids = [number.get(word, unknown) for word in sentence.split(b" ")[:LENGTH]]
      line = [begin, *ids, end][: LENGTH + 1]
      row[: len(line)] = line
    return tokens[:, :-1], tokens[:, 1:]

  spec = tf.TensorSpec([None, LENGTH], tf.int32)
  model = from_keras(
    lambda: text.next_word(vocabulary_size + 4),
    loss=text.token_loss,
    batch_spec=(spec, spec),
    metrics=collections.OrderedDict(
      accuracy=text.token_accuracy((unknown, end)), accuracy_all_tokens=text.token_accuracy(())
    ),
    seed=seed,
  )
  defaults = Defaults(
    total_rounds=1500, clients_per_round=50, client_batch_size=16, client_learning_rate=10**-0.5
  )
  details = {
    "max_examples_per_client": max_examples_per_client,
    "vocab_from_data": vocab_from_data,
    "vocabulary_size": vocabulary_size,
    "words_known": len(words),
  }
  return task_of("stackoverflow", source, model, prepare, defaults, details)


def load_tags(
  *,
  seed: int,
  data: str = "real",
  data_dir: str | None = None,
  num_clients: int | None = None,
  max_examples_per_client: int | None = 500,
  vocab_from_data: bool = False,
) -> Task:
  """Tag prediction: logistic regression from a bag of 10,000 words to 500 tags.

  Args:
    seed: of synthetic data.
    data: real or synthetic.
    data_dir: the folder with `tff/stackoverflow.sqlite`, `.word_count` and `.tag_count`.
    num_clients: only so many users, those with the most posts; all if not given.
    max_examples_per_client: only so many examples of each.
    vocab_from_data: take words and tags from the training split instead of the counts' files.
  """
  validation.one_of("data", data, DATA)
  source, words, tags = _open(
    data, data_dir, seed, num_clients, max_examples_per_client, vocab_from_data, WORDS, TAGS
  )
  word_number = {word.encode(): k for k, word in enumerate(words)}
  tag_number = {tag.encode(): k for k, tag in enumerate(tags)}

  def prepare(raw: Raw):
    # As pairs (token, share of the text), a fixed number of them: dense, they would be 40 kB each.
    tokens = np.zeros((len(raw["tokens"]), _BAG), np.int32)
    shares = np.zeros((len(raw["tokens"]), _BAG), np.float32)
    targets = np.zeros((len(raw["tokens"]), TAGS), np.uint8)
    for k, (body, title, labels) in enumerate(
      zip(raw["tokens"], raw["title"], raw["tags"], strict=True)
    ):
      known = (word_number.get(word) for word in (body + b" " + title).split())
      counts = collections.Counter(word for word in known if word is not None)
      common = counts.most_common(_BAG)
      tokens[k, : len(common)] = [word for word, _ in common]
      shares[k, : len(common)] = [count / counts.total() for _, count in common]
      targets[k, [tag_number[tag] for tag in labels.split(b"|") if tag in tag_number]] = 1
    return (tokens, shares), targets

  def finish(batch):
    (tokens, shares), targets = batch
    rows = tf.broadcast_to(tf.range(tf.shape(tokens)[0])[:, None], tf.shape(tokens))
    shape = tf.stack([tf.shape(tokens)[0], WORDS])
    bags = tf.scatter_nd(tf.stack([rows, tokens], -1), shares, shape)
    return tf.ensure_shape(bags, [None, WORDS]), tf.cast(targets, tf.float32)

  def loss(targets, logits):
    return tf.reduce_mean(
      tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits), axis=1)
    )

  def recall_at_5(targets, logits):
    best = tf.reduce_sum(tf.one_hot(tf.math.top_k(logits, 5).indices, TAGS), axis=1)
    present = tf.reduce_sum(targets, axis=1)
    hits = tf.reduce_sum(best * targets, axis=1)
    return tf.math.divide_no_nan(hits, present), tf.cast(present > 0, tf.float32)

  model = from_keras(
    tag_model,
    loss=loss,
    batch_spec=(
      tf.TensorSpec([None, WORDS], tf.float32),
      tf.TensorSpec([None, TAGS], tf.float32),
    ),
    metrics={"recall_at_5": recall_at_5},
    seed=seed,
  )
  defaults = Defaults(
    total_rounds=1500, clients_per_round=10, client_batch_size=100, client_learning_rate=10.0
  )
  details = {
    "max_examples_per_client": max_examples_per_client,
    "vocab_from_data": vocab_from_data,
    "words_known": len(words),
    "tags_known": len(tags),
  }
  return task_of("stackoverflow_tag", source, model, prepare, defaults, details, finish=finish)


def tag_model() -> "tf.keras.Model":
  """Logistic regression for each tag, from zero: 5,000,500 parameters."""
  return tf.keras.Sequential(
    [tf.keras.layers.Dense(TAGS, kernel_initializer="zeros", input_shape=(WORDS,))]
  )


_BAG = 128  # different words of a post that are kept: far more than a sentence and a title hold


def _open(data, data_dir, seed, num_clients, limit, from_data, num_words, num_tags):
  """The source, its words and its tags."""
  if data == "synthetic":
    words = [f"word{k}" for k in range(num_words)]
    tags = [f"tag{k}" for k in range(num_tags)]
    source = synthetic.synthetic_source(
      synthetic.posts(words, tags),
      seed=seed,
      num_clients=num_clients or USERS,
      examples=100,
      max_examples=limit,
      test_clients=TEST_EXAMPLES // 100,
    )
    return source, words, tags
  root = folders.root(data_dir)
  source = real(root, num_clients, limit)
  if from_data:
    words, tags = vocabulary_of(source, num_words, num_tags)
  else:
    words = read_word_counts(root / "tff" / "stackoverflow.word_count", num_words)
    tags = read_tag_counts(root / "tff" / "stackoverflow.tag_count", num_tags) if num_tags else []
  return source, words, tags


def real(root: pathlib.Path, num_clients: int | None = None, limit: int | None = None) -> Source:
  """The users of TFF's file."""
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
  """The words and tags that most users use, counted over (at most 10,000) training users."""
  words: collections.Counter[bytes] = collections.Counter()
  tags: collections.Counter[bytes] = collections.Counter()
  for client in source.clients[: min(len(source.clients), 10_000)]:
    raw = source.read(client)
    words.update({word for line in raw["tokens"] for word in line.split()})
    tags.update({tag for line in raw["tags"] for tag in line.split(b"|") if tag})

  def most(counts: collections.Counter[bytes], number: int) -> list[str]:
    ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
    return [word.decode(errors="replace") for word, _ in ordered[:number]]

  return most(words, num_words), most(tags, num_tags)


def read_word_counts(path: pathlib.Path, number: int) -> list[str]:
  """The first words of TFF's plain file of word counts, a word and its count on each line."""
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
  """The most frequent tags of TFF's file of tag counts."""
  try:
    counts = json.loads(_text(path, _TAG_SHA))
    return sorted(counts, key=lambda tag: -counts[tag])[:number]
  except (json.JSONDecodeError, TypeError, AttributeError) as error:
    raise DataError(f"{path} should be JSON of tags and counts; it is not ({error}).") from error


def _text(path: pathlib.Path, sha256: str) -> str:
  try:
    downloads.tff_counts(path, sha256)
  except DataError as error:
    raise DataError(
      f"{str(error).removesuffix('.')}; or build the vocabulary with --vocab_from_data."
    ) from error
  folders.readable(path)
  try:
    return path.read_text(encoding="utf-8")
  except UnicodeDecodeError as error:
    raise DataError(
      f"{path} is not UTF-8 text (byte {error.start}); delete it, and fetch it again."
    ) from error
