"""Sentiment140 from TFDS: whether a tweet is positive, by user (FedGBO, after LEAF).

Users with fewer than 10 tweets are left out, and a fifth of each user's tweets is for testing. A tweet
becomes a normalised bag of its words among the 5,000 most frequent ones; a tweet without such words is left
out.
"""

import collections
import itertools
import pathlib
import re

import numpy as np
import tensorflow as tf

from tasks.data import folders, synthetic, tfds
from tasks.data.batches import ArrayClients, ordered_batches
from tasks.data.folders import DataError
from tasks.data.sources import DATA, Raw, task_from_source
from tasks.models.classification import classifier
from tasks.task import Defaults, Task
from tff_momentum import validation

WORDS, MIN_TWEETS, LONGEST = 5_000, 10, 40
USERS = 21_876
_DEFAULTS = Defaults(
  total_rounds=500, clients_per_round=22, client_batch_size=8, client_learning_rate=1.0
)


def load(
  *,
  seed: int,
  data: str = "real",
  data_dir: str | None = None,
  num_clients: int | None = None,
  max_examples_per_client: int | None = None,
) -> Task:
  """Loads the task: a linear model of 10,002 parameters.

  Args:
    seed: seed of the synthetic data.
    data: real or synthetic.
    data_dir: the folder that contains `tfds/sentiment140`.
    num_clients: keep only this many users, those with the most tweets; synthetic data has any number.
    max_examples_per_client: upper bound on a client's tweets.

  Returns:
    The task.

  Raises:
    ValueError: an option is invalid, or (`DataError`) the data is missing or damaged.
  """
  validation.one_of("data", data, DATA)
  for name, value in (
    ("num_clients", num_clients),
    ("max_examples_per_client", max_examples_per_client),
  ):
    if value is not None:
      validation.integer(name, value, at_least=1)
  model = classifier(linear, tf.TensorSpec([None, WORDS], tf.float32), seed)
  details = {"max_examples_per_client": max_examples_per_client}
  if data == "synthetic":
    number = {f"w{k}".encode(): k for k in range(WORDS)}
    source = synthetic.synthetic_source(
      synthetic.tweets(),
      seed=seed,
      num_clients=num_clients or USERS,
      examples=15,
      max_examples=max_examples_per_client,
    )
    return task_from_source(
      "sent140", source, model, lambda raw: _prepare(raw, number), _DEFAULTS, details, finish=_bags
    )
  users = read_users(folders.root(data_dir), num_clients)
  limit = slice(max_examples_per_client)
  train: list[Raw] = [{key: column[limit] for key, column in user.items()} for user, _ in users]
  number = _vocabulary(train)
  prepared = [_without_empty(_prepare(raw, number)) for raw in train]
  bounds = np.cumsum([0, *(len(labels) for _, labels in prepared)])
  arrays = tuple(np.concatenate(column) for column in zip(*prepared, strict=True))
  parts = [np.arange(a, b) for a, b in itertools.pairwise(bounds)]
  clients = ArrayClients.of(arrays, parts, lambda batch, seed: _bags(batch))
  tests = [_without_empty(_prepare(raw, number)) for _, raw in users]
  test = tuple(np.concatenate(column) for column in zip(*tests, strict=True))
  return clients.task(
    "sent140",
    model,
    lambda batch_size: ordered_batches(test, batch_size, _bags),
    _DEFAULTS,
    {"data": "real", "num_clients": len(parts), **details},
    "real",
  )


def read_users(root: pathlib.Path, num_clients: int | None) -> list[tuple[Raw, Raw]]:
  """Reads the training and test tweets of every user with at least ten tweets.

  Args:
    root: the data folder, which contains `tfds/`.
    num_clients: keep only this many users, those with the most tweets.

  Raises:
    DataError: the data is missing or damaged.
  """
  made = tfds.builder("sentiment140", root)
  try:
    table = made.as_dataset(split="train", batch_size=-1, shuffle_files=False)
  except (tf.errors.OpError, OSError, ValueError) as error:
    reason = " ".join(str(error).split())[:120]
    raise DataError(
      f"{made.data_path} cannot be read ({reason}). Delete the folder and fetch it again."
    ) from error
  names, user = np.unique(table["user"].numpy().astype("S"), return_inverse=True)
  text, polarity = table["text"].numpy(), table["polarity"].numpy()
  by_user = np.split(np.argsort(user, kind="stable"), np.cumsum(np.bincount(user))[:-1])
  chosen = [tweets for tweets in by_user if len(tweets) >= MIN_TWEETS]
  if not chosen:
    raise DataError(
      f"{made.data_path}: expected users with at least {MIN_TWEETS} tweets; found none among {len(names)}."
    )
  if num_clients is not None:
    chosen = sorted(chosen, key=len, reverse=True)[:num_clients]
  users: list[tuple[Raw, Raw]] = []
  for tweets in chosen:
    cut = len(tweets) - max(1, len(tweets) // 5)
    parts = ({"text": text[t], "polarity": polarity[t]} for t in (tweets[:cut], tweets[cut:]))
    users.append((next(parts), next(parts)))
  return users


def linear() -> "tf.keras.Model":
  """A linear model of the two classes, initialised to zero: 10,002 parameters."""
  return tf.keras.Sequential(
    [tf.keras.layers.Dense(2, kernel_initializer="zeros", input_shape=(WORDS,))]
  )


def _words(tweet: bytes) -> list[bytes]:
  return re.findall(rb"[a-z0-9']+", tweet.lower())


def _vocabulary(users: list[Raw]) -> dict[bytes, int]:
  counts: collections.Counter[bytes] = collections.Counter()
  for raw in users:
    for tweet in raw["text"]:
      counts.update(_words(tweet))
  ordered = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
  return {word: k for k, (word, _) in enumerate(ordered[:WORDS])}


def _prepare(raw: Raw, number: dict[bytes, int]) -> tuple[np.ndarray, np.ndarray]:
  """Returns the numbers of the distinct words of each tweet, padded with WORDS, and the labels."""
  tokens = np.full((len(raw["text"]), LONGEST), WORDS, np.int16)
  for row, tweet in zip(tokens, raw["text"], strict=True):
    known = sorted({number[word] for word in _words(tweet) if word in number})[:LONGEST]
    row[: len(known)] = known
  return tokens, (np.asarray(raw["polarity"]) > 2).astype(np.int32)


def _without_empty(prepared: tuple[np.ndarray, np.ndarray]) -> tuple[np.ndarray, np.ndarray]:
  some = prepared[0][:, 0] < WORDS
  return prepared[0][some], prepared[1][some]


def _bags(batch: tuple[tf.Tensor, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
  tokens, labels = batch
  bags = tf.reduce_sum(tf.one_hot(tf.cast(tokens, tf.int32), WORDS), axis=1)
  return tf.math.divide_no_nan(bags, tf.reduce_sum(bags, axis=1, keepdims=True)), labels
