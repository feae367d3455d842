"""Quantised uploads: QSGD (Alistarh et al. 2017), and any algorithm with its uploads quantised.

QSGD with b bits sends a tensor v as its norm, a float32, and for each coordinate a sign and a level out
of s = 2^(b−1) − 1:

    Q(v) = ‖v‖₂ · sign(v) · level/s,   level = ⌊a⌋ or ⌊a⌋ + 1 at random so that E[level] = a = s|v|/‖v‖₂

Hence E[Q(v)] = v and E‖Q(v) − v‖² ≤ min(d/s², √d/s) ‖v‖² for d coordinates: FedGLOMO's Assumption 3.
The simulation does not pack bits: an upload holds the decoded values, and the byte counts are those of the
packed form.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tff_momentum import validation, wire_bytes
from tff_momentum.algorithm import Algorithm, Exchange, Update
from tff_momentum.registry import ALGORITHMS


@dataclasses.dataclass(frozen=True)
class Quantiser:
  """A way to compress a structure of tensors.

  Attributes:
    quantise: (structure, seed int32[2]) -> the structure as the server decodes it.
    packed_bytes: (specs of the structure) -> bytes on the wire.
    text: its name on the command line.
  """

  quantise: Callable[[Any, tf.Tensor], Any]
  packed_bytes: Callable[[Any], int]
  text: str

  def __str__(self) -> str:
    return self.text


def qsgd(bits: int) -> Quantiser:
  """QSGD, applied to each tensor separately.

  Example:
    >>> import tensorflow as tf, tff_momentum as tfm
    >>> q = tfm.qsgd(bits=8)
    >>> q.packed_bytes(tf.TensorSpec([1000]))
    1004
    >>> q.quantise(tf.zeros([3]), tf.constant([1, 2])).numpy().tolist()
    [0.0, 0.0, 0.0]

  Args:
    bits: b ≥ 2 bits per coordinate, including the sign; 32 or more means no compression.

  Raises:
    ValueError: if `bits` is not an integer of at least 2.
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
    total_bits = sum(32 + bits * spec.shape.num_elements() for spec in tf.nest.flatten(specs))
    return -(-total_bits // 8)

  return Quantiser(quantise, packed_bytes, f"qsgd:{bits}")


def uniforms(v: tf.Tensor, seed: tf.Tensor, number: int) -> tf.Tensor:
  """The random numbers in [0, 1) that decide the rounding of tensor `number` of a structure."""
  seed = tf.random.experimental.stateless_fold_in(seed, number)
  return tf.random.stateless_uniform(tf.shape(v), seed, dtype=v.dtype)


def qsgd_round(v: tf.Tensor, u: tf.Tensor, bits: int) -> tf.Tensor:
  """Q(v); a coordinate is rounded up if its `u` is below the fraction that rounding down would drop."""
  s = tf.constant(2.0 ** (bits - 1) - 1, v.dtype)
  # Dividing by the largest entry keeps the squares from overflow and underflow.
  largest = tf.reduce_max(tf.abs(v)) if v.shape.num_elements() else tf.zeros([], v.dtype)
  norm = largest * tf.norm(tf.math.divide_no_nan(v, largest))
  norm = tf.cast(tf.cast(norm, tf.float32), v.dtype)  # the norm travels as a float32
  scaled = tf.math.divide_no_nan(tf.abs(v), norm) * s
  low = tf.floor(scaled)
  # Rounding the norm can make it smaller than the largest entry, whose level would then be s + 1.
  level = tf.minimum(low + tf.cast(u < scaled - low, v.dtype), s)
  return norm * (tf.sign(v) * level / s)


def quantiser(value: Quantiser | str) -> Quantiser:
  """Reads a text such as "qsgd:4"; returns a quantiser unchanged.

  Example:
    >>> import tff_momentum as tfm
    >>> str(tfm.quantiser("qsgd:4"))
    'qsgd:4'

  Raises:
    ValueError: if the text has another form.
  """
  if isinstance(value, Quantiser):
    return value
  name, _, bits = str(value).partition(":")
  if name != "qsgd" or not bits.isdecimal():
    raise ValueError(
      f"compression must be qsgd:b with b bits per coordinate, such as qsgd:4; found {value!r}."
    )
  return qsgd(int(bits))


def compressed(algorithm: Algorithm, compression: Quantiser | str) -> Algorithm:
  """Returns the same algorithm with quantised uploads; client states are not quantised.

  Example:
    >>> import tff_momentum as tfm
    >>> tfm.compressed(tfm.algorithms.fedavg(client_learning_rate=0.1), "qsgd:8")
    Algorithm(fedavg(client_learning_rate=0.1), 1 exchange per round)

  Args:
    algorithm: the algorithm.
    compression: a quantiser or its text, such as "qsgd:4".

  Raises:
    ValueError: if the algorithm already compresses its uploads.
  """
  q = quantiser(compression)

  def with_quantised_upload(number: int, exchange: Exchange) -> Exchange:
    if exchange.upload_bytes is not wire_bytes.dense_bytes:
      known = ALGORITHMS.get(algorithm.name)
      if known is not None and "bits" not in known.hyperparameters:
        found = "is compressed already, or whose server derives part of the upload from the rest."
      else:
        found = "compresses its uploads itself: set its own `bits`."
      raise ValueError(
        f"Expected an algorithm with uncompressed uploads for {q} to compress; found one that {found}"
      )

    def client_update(client, message, state):
      update = exchange.client_update(client, message, state)
      return Update(q.quantise(update.upload, client.seed(number)), update.state)

    return dataclasses.replace(exchange, client_update=client_update, upload_bytes=q.packed_bytes)

  averaging = algorithm.averaging
  return dataclasses.replace(
    algorithm,
    averaging=averaging and dataclasses.replace(averaging, exact=False),
    exchanges=tuple(with_quantised_upload(*each) for each in enumerate(algorithm.exchanges)),
  )
