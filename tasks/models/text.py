"""Recurrent models of the federated learning papers, and the loss of padded sequences.

Padding (token 0) comes at the end of a sequence, and no position looks ahead. So it is enough to leave padded
positions out of the loss; the layers need no mask. FedMAX's penalty includes padded positions.
"""

import functools
from collections.abc import Callable

import tensorflow as tf

from tasks.models.images import PENULTIMATE


def next_word(tokens: int) -> "tf.keras.Model":
  """Reddi et al.'s Stack Overflow model: embedding 96, LSTM 670, projection to 96, logits of all tokens.

  4,050,748 parameters for 10,004 tokens.
  """
  L = tf.keras.layers
  return _tokens_to_logits(
    tokens, 96, L.LSTM(670, return_sequences=True), L.Dense(96, name=PENULTIMATE)
  )


def next_characters(tokens: int) -> "tf.keras.Model":
  """McMahan et al.'s Shakespeare model: embedding 8, two LSTMs of 256: 820,522 parameters for 90 tokens."""
  lstm = functools.partial(
    tf.keras.layers.LSTM, 256, return_sequences=True, kernel_initializer="he_normal"
  )
  return _tokens_to_logits(tokens, 8, lstm(), lstm(name=PENULTIMATE))


def one_character_lstm(tokens: int) -> "tf.keras.Model":
  """GHBM's Shakespeare model: embedding 8, two LSTMs of 100, one character: 132,720 parameters for 80."""
  L = tf.keras.layers
  return _tokens_to_logits(
    tokens, 8, L.LSTM(100, return_sequences=True), L.LSTM(100, name=PENULTIMATE)
  )


def one_character_gru(tokens: int) -> "tf.keras.Model":
  """FedGBO's Shakespeare model: embedding 8, two GRUs of 128, one character: 162,887 parameters for 79."""
  L = tf.keras.layers
  return _tokens_to_logits(
    tokens, 8, L.GRU(128, return_sequences=True), L.GRU(128, name=PENULTIMATE)
  )


def _tokens_to_logits(
  tokens: int, embedding: int, *between: "tf.keras.layers.Layer"
) -> "tf.keras.Model":
  L = tf.keras.layers
  ends = [L.InputLayer((None,), dtype=tf.int32), L.Embedding(tokens, embedding)]
  return tf.keras.Sequential([*ends, *between, L.Dense(tokens)])


def token_loss(labels: tf.Tensor, logits: tf.Tensor) -> tf.Tensor:
  """Returns the mean cross-entropy of the tokens of a batch that are not padding."""
  real = tf.cast(tf.not_equal(labels, 0), logits.dtype)
  losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits)
  return tf.math.divide_no_nan(tf.reduce_sum(losses * real), tf.reduce_sum(real))


def token_accuracy(
  not_counted: tuple[int, ...],
) -> Callable[[tf.Tensor, tf.Tensor], tuple[tf.Tensor, tf.Tensor]]:
  """Returns a metric: the accuracy over the tokens that are neither padding nor `not_counted`."""

  def accuracy(labels: tf.Tensor, logits: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    right = tf.equal(tf.argmax(logits, -1, labels.dtype), labels)
    counts = tf.not_equal(labels, 0)
    for token in not_counted:
      counts &= tf.not_equal(labels, token)
    return right, counts

  return accuracy
