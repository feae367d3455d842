"""Stack Overflow from TFF: the tags of a post, by user (Reddi et al. 2021)."""

import collections
import functools

import numpy as np
import tensorflow as tf

from tasks.data import folders
from tasks.data.sources import DATA, Raw, task_from_source
from tasks.data.stackoverflow_files import real_posts, synthetic_posts
from tasks.task import Defaults, Task
from tff_momentum import validation
from tff_momentum.models.keras import from_keras

WORDS, TAGS = 10_000, 500
_GUESSES = 5  # recall at 5
_BAG = 128  # distinct words kept per post; a sentence and a title have far fewer

SparseBags = tuple[
  tf.Tensor, tf.Tensor
]  # words int32[n, _BAG], their shares of the text float32[n, _BAG]


def load(
  *,
  seed: int,
  data: str = "real",
  data_dir: str | None = None,
  num_clients: int | None = None,
  max_examples_per_client: int | None = 500,
  vocab_from_data: bool = False,
  vocabulary_size: int = WORDS,
  num_tags: int = TAGS,
) -> Task:
  """Loads the task: logistic regression from a bag of words to tags.

  Args:
    seed: seed of the synthetic data.
    data: real or synthetic.
    data_dir: the folder that contains `tff/stackoverflow.sqlite`, `.word_count` and `.tag_count`.
    num_clients: keep only this many users, those with the most posts; None keeps all.
    max_examples_per_client: upper bound on a client's examples.
    vocab_from_data: use the most frequent words and tags of the training split instead of the count files.
    vocabulary_size: number of words in a bag, the most frequent ones.
    num_tags: number of tags to predict, the most frequent ones.

  Returns:
    The task.

  Raises:
    ValueError: an option is invalid, or (`DataError`) the data is missing or damaged.
  """
  validation.one_of("data", data, DATA)
  validation.integer("vocabulary_size", vocabulary_size, at_least=1)
  validation.integer("num_tags", num_tags, at_least=_GUESSES)
  if data == "synthetic":
    source, words, tags = synthetic_posts(
      seed=seed,
      num_clients=num_clients,
      max_examples=max_examples_per_client,
      num_words=vocabulary_size,
      num_tags=num_tags,
    )
  else:
    source, words, tags = real_posts(
      folders.root(data_dir),
      num_clients=num_clients,
      max_examples=max_examples_per_client,
      vocab_from_data=vocab_from_data,
      num_words=vocabulary_size,
      num_tags=num_tags,
    )
  word_number = {word.encode(): k for k, word in enumerate(words)}
  tag_number = {tag.encode(): k for k, tag in enumerate(tags)}

  def prepare(raw: Raw) -> tuple[tuple[np.ndarray, np.ndarray], np.ndarray]:
    # A fixed number of pairs (word, share of the text): a dense bag would take 40 kB per post.
    tokens = np.zeros((len(raw["tokens"]), _BAG), np.int32)
    shares = np.zeros((len(raw["tokens"]), _BAG), np.float32)
    targets = np.zeros((len(raw["tokens"]), num_tags), np.uint8)
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

  model = from_keras(
    functools.partial(tag_model, vocabulary_size, num_tags),
    loss=_loss,
    batch_spec=(
      tf.TensorSpec([None, vocabulary_size], tf.float32),
      tf.TensorSpec([None, num_tags], tf.float32),
    ),
    metrics={"recall_at_5": _recall_at_5},
    seed=seed,
  )
  defaults = Defaults(
    total_rounds=1500, clients_per_round=10, client_batch_size=100, client_learning_rate=10.0
  )
  details = {
    "max_examples_per_client": max_examples_per_client,
    "vocab_from_data": vocab_from_data,
    "vocabulary_size": vocabulary_size,
    "num_tags": num_tags,
    "words_known": len(words),
    "tags_known": len(tags),
  }
  return task_from_source(
    "stackoverflow_tag",
    source,
    model,
    prepare,
    defaults,
    details,
    finish=functools.partial(_dense_bags, vocabulary_size),
  )


def tag_model(words: int = WORDS, tags: int = TAGS) -> "tf.keras.Model":
  """One logistic regression per tag, initialised to zero: 5,000,500 parameters by default."""
  return tf.keras.Sequential(
    [tf.keras.layers.Dense(tags, kernel_initializer="zeros", input_shape=(words,))]
  )


def _dense_bags(words: int, batch: tuple[SparseBags, tf.Tensor]) -> tuple[tf.Tensor, tf.Tensor]:
  (tokens, shares), targets = batch
  rows = tf.broadcast_to(tf.range(tf.shape(tokens)[0])[:, None], tf.shape(tokens))
  shape = tf.stack([tf.shape(tokens)[0], words])
  bags = tf.scatter_nd(tf.stack([rows, tokens], -1), shares, shape)
  return tf.ensure_shape(bags, [None, words]), tf.cast(targets, tf.float32)


def _loss(targets: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
  return tf.reduce_mean(
    tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=targets, logits=logits), axis=1)
  )


def _recall_at_5(targets: tf.Tensor, logits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
  guesses = tf.math.top_k(logits, _GUESSES).indices
  best = tf.reduce_sum(tf.one_hot(guesses, targets.shape[1]), axis=1)
  present = tf.reduce_sum(targets, axis=1)
  hits = tf.reduce_sum(best * targets, axis=1)
  return tf.math.divide_no_nan(hits, present), tf.cast(present > 0, tf.float32)
