"""Stack Overflow from TFF: the next word of a post, by user (Reddi et al. 2021)."""

import collections

import numpy as np
import tensorflow as tf

from tasks.data import folders
from tasks.data.sources import DATA, Raw, task_from_source
from tasks.data.stackoverflow_files import real_posts, synthetic_posts
from tasks.models import text
from tasks.models.images import PENULTIMATE
from tasks.task import Defaults, Task
from tff_momentum import validation
from tff_momentum.models.keras import from_keras

WORDS, LENGTH = 10_000, 20


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
  """Loads the task: the first 20 words of a sentence, and a fixed sample of 10,000 test examples.

  Args:
    seed: seed of the initial weights and the synthetic data.
    data: real or synthetic.
    data_dir: the folder that contains `tff/stackoverflow.sqlite` and `tff/stackoverflow.word_count`.
    num_clients: keep only this many users, those with the most posts (GHBM: 40,000); None keeps all.
    max_examples_per_client: upper bound on a client's examples.
    vocab_from_data: use the most frequent words of the training split instead of the word count file.
    vocabulary_size: number of words with a token of their own.

  Returns:
    The task.

  Raises:
    ValueError: an option is invalid, or (`DataError`) the data is missing or damaged.
  """
  validation.one_of("data", data, DATA)
  validation.integer("vocabulary_size", vocabulary_size, at_least=1)
  if data == "synthetic":
    source, words, _ = synthetic_posts(
      seed=seed,
      num_clients=num_clients,
      max_examples=max_examples_per_client,
      num_words=vocabulary_size,
      num_tags=0,
    )
  else:
    source, words, _ = real_posts(
      folders.root(data_dir),
      num_clients=num_clients,
      max_examples=max_examples_per_client,
      vocab_from_data=vocab_from_data,
      num_words=vocabulary_size,
      num_tags=0,
    )
  unknown, begin, end = vocabulary_size + 1, vocabulary_size + 2, vocabulary_size + 3
  number = {word.encode(): k + 1 for k, word in enumerate(words)}

  def prepare(raw: Raw) -> tuple[np.ndarray, np.ndarray]:
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
    penultimate=PENULTIMATE,
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
  return task_from_source("stackoverflow", source, model, prepare, defaults, details)
