"""Quantised uploads: QSGD (Alistarh et al. 2017), and any algorithm with its uploads quantised.

QSGD with b bits sends a tensor v as its norm, a float32, and for each coordinate a sign and a level out
of s = 2^(b−1) − 1:

    Q(v) = ‖v‖₂ · sign(v) · level/s,   level = ⌊a⌋ or ⌊a⌋ + 1 at random so that E[level] = a = s|v|/‖v‖₂

Hence E[Q(v)] = v and E‖Q(v) − v‖² ≤ min(d/s², √d/s) ‖v‖² for d coordinates: FedGLOMO's Assumption 3.
With few bits and many coordinates this is a large error: √d/s is 300 for 2 bits and a layer of 300 × 300
weights. QSGD's own experiments therefore cut v into buckets of 512 coordinates and scale each bucket by its
largest entry; then the error of a coordinate is at most that entry / s.
The simulation does not pack bits: an upload holds the decoded values, and the byte counts are those of the
packed form.
"""

import dataclasses
import re
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tff_momentum import call_syntax, validation, wire_bytes
from tff_momentum.algorithm import Algorithm, Exchange, Update
from tff_momentum.registry import ALGORITHMS

NORMS = ("l2", "max")


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


def qsgd(bits: int, norm: str = "l2", bucket: int | None = None) -> Quantiser:
  """QSGD, applied to each tensor separately.

  Example:
    >>> import tensorflow as tf, tff_momentum as tfm
    >>> q = tfm.qsgd(bits=8)
    >>> q.packed_bytes(tf.TensorSpec([1000]))
    1004
    >>> q.quantise(tf.zeros([3]), tf.constant([1, 2])).numpy().tolist()
    [0.0, 0.0, 0.0]
    >>> tfm.qsgd(bits=4, norm="max", bucket=512).packed_bytes(tf.TensorSpec([1000]))
    508

  Args:
    bits: b ≥ 2 bits per coordinate, including the sign; 32 or more means no compression.
    norm: what a bucket is scaled by, its "l2" norm (default) or its largest entry, "max".
    bucket: the number of coordinates that share a norm; None (default) for all of a tensor.

  Raises:
    ValueError: if an argument is out of its range.
  """
  validation.integer("bits", bits, at_least=2)
  validation.one_of("norm", norm, NORMS)
  if bucket is not None:
    validation.integer("bucket", bucket, at_least=1)
  plain = norm == "l2" and bucket is None
  text = f"qsgd:{bits}" if plain else f"qsgd({bits}, norm={norm!r}, bucket={bucket})"
  if bits >= 32:
    return Quantiser(lambda tree, seed: tree, wire_bytes.dense_bytes, text)

  def quantise(tree, seed):
    tensors = [
      qsgd_round(v, uniforms(v, seed, number), bits, norm, bucket)
      for number, v in enumerate(tf.nest.flatten(tree))
    ]
    return tf.nest.pack_sequence_as(tree, tensors)

  def packed_bytes(specs):
    sizes = [spec.shape.num_elements() for spec in tf.nest.flatten(specs)]
    norms = sum(1 if bucket is None else -(-size // bucket) for size in sizes)
    return -(-(32 * norms + bits * sum(sizes)) // 8)

  return Quantiser(quantise, packed_bytes, text)


def uniforms(v: tf.Tensor, seed: tf.Tensor, number: int) -> tf.Tensor:
  """The random numbers in [0, 1) that decide the rounding of tensor `number` of a structure."""
  seed = tf.random.experimental.stateless_fold_in(seed, number)
  return tf.random.stateless_uniform(tf.shape(v), seed, dtype=v.dtype)


def qsgd_round(
  v: tf.Tensor, u: tf.Tensor, bits: int, norm: str = "l2", bucket: int | None = None
) -> tf.Tensor:
  """Q(v); a coordinate is rounded up if its `u` is below the fraction that rounding down would drop."""
  size = v.shape.num_elements()
  if not size:
    return v
  if bucket is None:
    return _scaled_levels(v, u, bits, norm)
  rows = -(-size // bucket)

  def cut(each):
    return tf.reshape(tf.pad(tf.reshape(each, [-1]), [[0, rows * bucket - size]]), [rows, bucket])

  decoded = _scaled_levels(cut(v), cut(u), bits, norm, axis=1)
  return tf.reshape(tf.reshape(decoded, [-1])[:size], v.shape)


def _scaled_levels(
  v: tf.Tensor, u: tf.Tensor, bits: int, norm: str, axis: int | None = None
) -> tf.Tensor:
  """Q(v) with one norm for all of v, or one for the coordinates along `axis`."""
  s = tf.constant(2.0 ** (bits - 1) - 1, v.dtype)
  scale = tf.reduce_max(tf.abs(v), axis, keepdims=axis is not None)
  if norm == "l2":  # dividing by the largest entry keeps the squares from overflow and underflow
    scale *= tf.norm(tf.math.divide_no_nan(v, scale), axis=axis, keepdims=axis is not None)
  scale = tf.cast(tf.cast(scale, tf.float32), v.dtype)  # the norm travels as a float32
  scaled = tf.math.divide_no_nan(tf.abs(v), scale) * s
  low = tf.floor(scaled)
  # Rounding the norm can make it smaller than the largest entry, whose level would then be s + 1.
  level = tf.minimum(low + tf.cast(u < scaled - low, v.dtype), s)
  return scale * (tf.sign(v) * level / s)


def quantiser(value: Quantiser | str) -> Quantiser:
  """Reads a text such as "qsgd:4" or "qsgd(4, norm='max', bucket=512)"; returns a quantiser unchanged.

  Example:
    >>> import tff_momentum as tfm
    >>> str(tfm.quantiser("qsgd:4"))
    'qsgd:4'
    >>> str(tfm.quantiser("qsgd(4, norm='max', bucket=512)"))
    "qsgd(4, norm='max', bucket=512)"

  Raises:
    ValueError: if the text has another form.
  """
  if isinstance(value, Quantiser):
    return value
  text = re.sub(r"^qsgd:(\d+)$", r"qsgd(\1)", str(value).strip())
  if not text.startswith("qsgd("):
    raise ValueError(
      "compression must be qsgd:b with b bits per coordinate, such as qsgd:4, or "
      f"qsgd(4, norm='max', bucket=512); found {value!r}."
    )
  return call_syntax.evaluate("compression", text, {"qsgd": qsgd}, literal="")


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
