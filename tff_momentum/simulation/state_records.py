"""States as bytes: a header of types and shapes, followed by the tensors' buffers.

    "TFMS" | length of the header, uint32 | header, JSON: [["float32", [3, 4]], ...] | buffers

A record describes itself, and reading one never runs code.
"""

import io
import json
import struct
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

State = Any  # a structure of arrays or tensors, as `tf.nest` has it

_MAGIC = b"TFMS"
_PREFIX = struct.Struct("<4sI")


class StateCodec:
  """Encodes and decodes states of one structure.

  Example:
    >>> codec = StateCodec((np.zeros(3, np.float32), np.int32(0)))
    >>> codec.decode(codec.encode((np.ones(3, np.float32), np.int32(5))))
    (array([1., 1., 1.], dtype=float32), array(5, dtype=int32))
  """

  def __init__(self, template: State):
    """Takes the structure, types and shapes from any one state; its values do not matter."""
    self._template = tf.nest.map_structure(lambda leaf: None, template)
    leaves = [np.asarray(leaf) for leaf in tf.nest.flatten(template)]
    self._specs = [(leaf.dtype, leaf.shape, leaf.nbytes) for leaf in leaves]
    self._header = _header(leaves)

  @property
  def is_empty(self) -> bool:
    """Whether states have no tensors."""
    return not self._specs

  def arrays(self, state: State) -> State:
    """Returns the state as NumPy arrays.

    Raises:
      ValueError: types or shapes differ from the template's.
    """
    leaves = [np.asarray(leaf, order="C") for leaf in tf.nest.flatten(state)]
    if _header(leaves) != self._header:
      raise ValueError(
        f"Expected a client state of {self._header.decode()}; found {_header(leaves).decode()}."
      )
    return tf.nest.pack_sequence_as(self._template, leaves)

  def encode(self, state: State) -> bytes:
    """Returns the state as a record.

    Raises:
      ValueError: types or shapes differ from the template's.
    """
    return b"".join(self.parts(state))

  def parts(self, state: State) -> Iterator[bytes | memoryview]:
    """Yields the record piece by piece, to be written to a file without copying a large state."""
    leaves = tf.nest.flatten(self.arrays(state))
    yield _PREFIX.pack(_MAGIC, len(self._header)) + self._header
    yield from (memoryview(leaf.reshape(-1).view(np.uint8)) for leaf in leaves)

  def decode(self, record: bytes | memoryview) -> State:
    """Returns a copy of the state in a record.

    Raises:
      ValueError: the record holds a state of other types or shapes.
    """
    view = memoryview(record)
    magic, length = _PREFIX.unpack_from(view)
    start, leaves = _PREFIX.size + length, []
    self._check(magic, bytes(view[_PREFIX.size : start]))
    for dtype, shape, size in self._specs:
      part = np.frombuffer(view[start : start + size], dtype)
      leaves.append(part.reshape(shape).copy())
      start += size
    return tf.nest.pack_sequence_as(self._template, leaves)

  def read(self, file: io.BufferedReader) -> State:
    """Returns the state in a file, as tensors. A large state is in memory only once.

    Raises:
      ValueError: the file ends early, or holds a state of other types or shapes.
    """
    magic, length = _PREFIX.unpack(file.read(_PREFIX.size))
    self._check(magic, file.read(length))
    leaves = []
    for dtype, shape, size in self._specs:
      with tf.device("CPU:0"):
        flat = tf.raw_ops.Empty(shape=[size // dtype.itemsize], dtype=dtype)
        # Reads into the tensor's own memory. Converting an array would hold the data three times for a while.
        if file.readinto(flat._numpy()) != size:
          raise ValueError("Expected a complete stored state; found a file that ends early.")
        leaves.append(tf.reshape(flat, shape))
    return tf.nest.pack_sequence_as(self._template, leaves)

  def _check(self, magic: bytes, header: bytes) -> None:
    if magic != _MAGIC or header != self._header:
      raise ValueError(
        f"Expected a stored client state of {self._header.decode()}; found "
        f"{header.decode(errors='replace')}: it was written by another algorithm or model."
      )


class LazyStateCodec:
  """Makes the codec when the first state is read or written, from the state of a new client."""

  def __init__(self, init: Callable[[str], State]):
    self._init = init
    self._codec: StateCodec | None = None

  def of(self, client: str) -> StateCodec:
    """Returns the codec; `client` is the id of any client."""
    if self._codec is None:
      self._codec = StateCodec(self._init(client))
    return self._codec


def _header(leaves: list[np.ndarray]) -> bytes:
  return json.dumps([[leaf.dtype.name, list(leaf.shape)] for leaf in leaves]).encode()
