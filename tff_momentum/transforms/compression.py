"""Quantised uploads: QSGD (Alistarh et al. 2017), and any algorithm with its uploads quantised.

QSGD with b bits sends a tensor v as its norm, a float32, and for each coordinate a sign and a level out
of s = 2^(b−1) − 1:

    Q(v) = ‖v‖₂ · sign(v) · level/s,   level = ⌊a⌋ or ⌊a⌋ + 1 at random so that E[level] = a = s|v|/‖v‖₂

Hence E[Q(v)] = v and E‖Q(v) − v‖² ≤ min(d/s², √d/s) ‖v‖² for d coordinates: FedGLOMO's Assumption 3.
Nothing is packed in fact: a client's upload is the value that the packed bits would stand for, and the
bytes are counted as if it had been.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tff_momentum import validation, wire_bytes
from tff_momentum.algorithm import Algorithm, Exchange, Update


@dataclasses.dataclass(frozen=True)
class Quantiser:
  """How to compress a structure of tensors.

  Attributes:
    quantise: (structure, seed int32[2]) -> the structure as the server will see it.
    packed_bytes: (specs of the structure) -> bytes on the wire.
    text: what it is, as the command line writes it.
  """

  quantise: Callable[[Any, tf.Tensor], Any]
  packed_bytes: Callable[[Any], int]
  text: str

  def __str__(self) -> str:
    return self.text


def qsgd(bits: int) -> Quantiser:
  """QSGD, tensor by tensor.

  Args:
    bits: b ≥ 2 for each coordinate, its sign included; 32 or more means no compression.
  """
  validation.integer("bits", bits, at_least=2)
  if bits >= 32:
    return Quantiser(lambda tree, seed: tree, wire_bytes.dense_bytes, f"qsgd:{bits}")

  def quantise(tree, seed):
    tensors = [
      qsgd_round(v, uniforms(v, seed, number), bits)
      for number, v in enumerate(tf.nest.flatten(tree))
    ]
    return tf.nest.pack_sequence_as(tree, tensors)

  def packed_bytes(specs):
    bits_in_all = sum(32 + bits * spec.shape.num_elements() for spec in tf.nest.flatten(specs))
    return -(-bits_in_all // 8)

  return Quantiser(quantise, packed_bytes, f"qsgd:{bits}")


def uniforms(v: tf.Tensor, seed: tf.Tensor, number: int) -> tf.Tensor:
  """The numbers in [0, 1) that decide how tensor `number` of a message is rounded."""
  seed = tf.random.experimental.stateless_fold_in(seed, number)
  return tf.random.stateless_uniform(tf.shape(v), seed, dtype=v.dtype)


def qsgd_round(v: tf.Tensor, u: tf.Tensor, bits: int) -> tf.Tensor:
  """Q(v): a coordinate is rounded up where `u` lies below what rounding down would cut off."""
  s = tf.constant(2.0 ** (bits - 1) - 1, v.dtype)
  # Through the largest entry, so that squares neither overflow nor vanish.
  largest = tf.reduce_max(tf.abs(v)) if v.shape.num_elements() else tf.zeros([], v.dtype)
  norm = largest * tf.norm(tf.math.divide_no_nan(v, largest))
  norm = tf.cast(tf.cast(norm, tf.float32), v.dtype)  # as it travels
  scaled = tf.math.divide_no_nan(tf.abs(v), norm) * s
  low = tf.floor(scaled)
  # The norm may have been rounded to below the largest entry, whose level would then be s + 1.
  level = tf.minimum(low + tf.cast(u < scaled - low, v.dtype), s)
  return norm * (tf.sign(v) * level / s)


def quantiser(value: Quantiser | str) -> Quantiser:
  """A quantiser, or the one that a text such as `qsgd:4` spells."""
  if isinstance(value, Quantiser):
    return value
  name, _, bits = str(value).partition(":")
  if name != "qsgd" or not bits.isdecimal():
    raise ValueError(
      f"compression must be qsgd:b with b bits for each coordinate, such as qsgd:4; found {value!r}."
    )
  return qsgd(int(bits))


def compressed(algorithm: Algorithm, compression: Quantiser | str) -> Algorithm:
  """The same algorithm with every upload quantised.

  What a client keeps for its next round stays exact. An algorithm that quantises its uploads itself is
  refused.
  """
  q = quantiser(compression)

  def with_quantised_upload(number: int, exchange: Exchange) -> Exchange:
    if exchange.upload_bytes is not wire_bytes.dense_bytes:
      raise ValueError(
        f"Expected an algorithm that uploads plain tensors for {q} to compress; found one that "
        "packs its uploads itself: set its own `bits` instead."
      )

    def client_update(client, message, state):
      update = exchange.client_update(client, message, state)
      return Update(q.quantise(update.upload, client.seed(number)), update.state)

    return dataclasses.replace(exchange, client_update=client_update, upload_bytes=q.packed_bytes)

  return dataclasses.replace(
    algorithm,
    exchanges=tuple(with_quantised_upload(*each) for each in enumerate(algorithm.exchanges)),
  )
