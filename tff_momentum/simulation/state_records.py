"""A client's state as bytes: a header of types and shapes, then the tensors' buffers one after another.

    "TFMS" | length of the header, uint32 | header, JSON: [["float32", [3, 4]], ...] | buffers

Nothing that is read back can run code, and a record says by itself what is in it.
"""

import io
import json
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

_MAGIC = b"TFMS"
_PREFIX = struct.Struct("<4sI")


class StateCodec:
  """Writes and reads the states of one algorithm's clients, all of one structure."""

  def __init__(self, template: Any):
    """Takes any one state; only its structure, types and shapes matter."""
    self._template = tf.nest.map_structure(lambda leaf: None, template)
    leaves = [np.asarray(leaf) for leaf in tf.nest.flatten(template)]
    self._specs = [(leaf.dtype, leaf.shape, leaf.nbytes) for leaf in leaves]
    self._header = _header(leaves)

  def arrays(self, state: Any) -> Any:
    """The state in arrays; raises if they are not of the template's types and shapes."""
    leaves = [np.asarray(leaf, order="C") for leaf in tf.nest.flatten(state)]
    if _header(leaves) != self._header:
      raise ValueError(
        f"Expected a client state of {self._header.decode()}; found {_header(leaves).decode()}."
      )
    return tf.nest.pack_sequence_as(self._template, leaves)

  def encode(self, state: Any) -> bytes:
    """The state as a record."""
    return b"".join(self.parts(state))

  def parts(self, state: Any) -> Iterator[Any]:
    """The record piece by piece, for a file: a large state is not copied."""
    leaves = tf.nest.flatten(self.arrays(state))
    yield _PREFIX.pack(_MAGIC, len(self._header)) + self._header
    yield from (leaf.reshape(-1).view(np.uint8) for leaf in leaves)

  def decode(self, record: Any) -> Any:
    """The state in a record (any buffer), copied out of it."""
    view = memoryview(record)
    magic, length = _PREFIX.unpack_from(view)
    start, leaves = _PREFIX.size + length, []
    self._check(magic, bytes(view[_PREFIX.size : start]))
    for dtype, shape, size in self._specs:
      part = np.frombuffer(view[start : start + size], dtype)
      leaves.append(part.reshape(shape).copy())
      start += size
    return tf.nest.pack_sequence_as(self._template, leaves)

  def read(self, file: io.BufferedReader) -> Any:
    """The state in a file, in tensors: a large state is in memory once."""
    magic, length = _PREFIX.unpack(file.read(_PREFIX.size))
    self._check(magic, file.read(length))
    leaves = []
    for dtype, shape, size in self._specs:
      with tf.device("CPU:0"):
        flat = tf.raw_ops.Empty(shape=[size // dtype.itemsize], dtype=dtype)
        # Straight into the tensor's own memory: made of an array, it would be there three times for a while.
        if file.readinto(flat._numpy()) != size:
          raise ValueError("Expected a stored state; found the beginning of one.")
        leaves.append(tf.reshape(flat, shape))
    return tf.nest.pack_sequence_as(self._template, leaves)

  def _check(self, magic: bytes, header: bytes) -> None:
    if magic != _MAGIC or header != self._header:
      raise ValueError(
        f"Expected a stored client state of {self._header.decode()}; found "
        f"{header.decode(errors='replace')}: it was written by another algorithm or model."
      )


class LazyStateCodec:
  """A codec that is made when the first state is wanted, of what a new client starts from."""

  def __init__(self, init: Callable[[str], Any]):
    self._init = init
    self._codec: StateCodec | None = None

  def of(self, client: str) -> StateCodec:
    """The codec; `client` is any client."""
    if self._codec is None:
      self._codec = StateCodec(self._init(client))
    return self._codec


def _header(leaves: list[np.ndarray]) -> bytes:
  return json.dumps([[leaf.dtype.name, list(leaf.shape)] for leaf in leaves]).encode()
