"""What clients remember between their rounds, kept by client id: in memory, or on disk for many clients.

A store and the server's checkpoint must agree after a crash. The loop and the checkpoints use a store so::

    states = store.load(ids); ...; store.save(ids, states, t)         # in round t
    store.snapshot(folder / "client_states")                          # as part of writing a checkpoint
    store.release(folder / "client_states")                           # once the checkpoint is safe on disk
    store.restore(folder / "client_states")                           # when resuming from it
    store.clear()                                                     # when starting from nothing

`MemoryStore` writes all states into the snapshot. `LmdbStore` writes down no more than which round it holds,
and keeps what is needed to go back: every state is stored under (client, round), never over an
older one, and a snapshot is restored by deleting what later rounds wrote. Released versions that a newer
one of the same client has replaced are deleted. A round is one transaction: a process killed at any
instant leaves all of its states or none.
"""

import abc
import hashlib
import json
import pathlib
import struct
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import lmdb
import numpy as np
import tensorflow as tf

from tff_momentum.simulation.state_records import LazyCodec

_LENGTHS = struct.Struct("<IQ")
_ROUND = struct.Struct(">Q")  # big-endian, so that keys are in the order of the rounds


class ClientStates(abc.ABC):
  """A store of clients' states.

  Attributes:
    round: the number of rounds that the states have been through, as `ProcessState.round` counts them.
  """

  def __init__(self, init: Callable[[str], Any]):
    """Takes what gives a client that was never seen its first state."""
    self._init = init
    self._codec = LazyCodec(init)
    self.round = 0

  @abc.abstractmethod
  def load(self, ids: Sequence[str]) -> list[Any]:
    """The states of these clients; a client never seen before starts from `init`."""

  @abc.abstractmethod
  def save(self, ids: Sequence[str], states: Sequence[Any], round_number: int) -> None:
    """Remembers what these clients keep after this round, numbered from 0."""

  @abc.abstractmethod
  def snapshot(self, path: str | pathlib.Path) -> None:
    """Writes a file from which `restore` can bring back the states of this moment."""

  @abc.abstractmethod
  def restore(self, path: str | pathlib.Path) -> None:
    """Goes back to the states of a snapshot."""

  @abc.abstractmethod
  def clear(self) -> None:
    """Forgets all clients."""

  @abc.abstractmethod
  def release(self, path: str | pathlib.Path) -> None:
    """Says that no snapshot older than this one will ever be restored."""

  @abc.abstractmethod
  def close(self) -> None:
    """Ends the use of the store."""

  def _refuse_past(self, round_number: int) -> None:
    if round_number < self.round:
      raise ValueError(
        f"Expected the states of round {self.round} or later; found round {round_number}, which the store "
        "already holds: restore the snapshot that the run resumes from first."
      )


class MemoryStore(ClientStates):
  """Keeps the states of all clients seen so far in memory."""

  def __init__(self, init: Callable[[str], Any]):
    super().__init__(init)
    self._states: dict[str, Any] = {}

  def load(self, ids: Sequence[str]) -> list[Any]:
    """A look-up for each client."""
    return [self._states[i] if i in self._states else self._init(i) for i in ids]

  def save(self, ids: Sequence[str], states: Sequence[Any], round_number: int) -> None:
    """Replaces the states of these clients."""
    self._refuse_past(round_number)
    for client, state in zip(ids, states, strict=True):
      self._states[client] = tf.nest.map_structure(np.asarray, state)
    self.round = round_number + 1

  def snapshot(self, path: str | pathlib.Path) -> None:
    """Writes all states, client by client."""
    with open(path, "wb") as file:
      file.write(_LENGTHS.pack(len(self._states), self.round))
      for client, state in self._states.items():
        record, name = self._codec.of(client).encode(state), client.encode()
        file.write(_LENGTHS.pack(len(name), len(record)) + name)
        file.write(record)

  def restore(self, path: str | pathlib.Path) -> None:
    """Reads all states."""
    states = {}
    with open(path, "rb") as file:
      clients, round_number = _LENGTHS.unpack(file.read(_LENGTHS.size))
      for _ in range(clients):
        name, record = (file.read(n) for n in _LENGTHS.unpack(file.read(_LENGTHS.size)))
        client = name.decode()
        states[client] = self._codec.of(client).decode(record)
    self._states, self.round = states, round_number

  def clear(self) -> None:
    """Forgets all clients."""
    self._states, self.round = {}, 0

  def release(self, path: str | pathlib.Path) -> None:
    """A snapshot holds everything itself: nothing is kept for it."""

  def close(self) -> None:
    """Nothing to close."""


class LmdbStore(ClientStates):
  """Keeps the states on disk; only the cohort's are ever in memory.

  In the database: s + digest of the client's id + round -> record; j + round -> the digests saved in it;
  m -> JSON with the store's own id, the round, and the oldest round that can be gone back to.
  """

  def __init__(
    self, path: str | pathlib.Path, init: Callable[[str], Any], *, map_bytes: int = 2**26
  ):
    """Opens the store in the folder `path`, or makes it.

    Args:
      path: a folder of the store's own.
      init: gives a client that was never seen its first state.
      map_bytes: room for the file at first; it grows when it is full.
    """
    super().__init__(init)
    # Without metasync a power failure may undo the last rounds, never more; `snapshot` forces all out.
    self._env = lmdb.open(str(path), map_size=map_bytes, metasync=False)
    with self._env.begin() as txn:
      meta = txn.get(b"m")
    self._take(json.loads(meta) if meta else {"store": "", "round": 0, "oldest": 0})
    if not meta:
      self.clear()

  def load(self, ids: Sequence[str]) -> list[Any]:
    """Reads the newest version of each client."""
    with self._env.begin(buffers=True) as txn:
      records = [_newest(txn, _key(client)) for client in ids]
      return [
        self._init(client) if record is None else self._codec.of(client).decode(record)
        for client, record in zip(ids, records, strict=True)
      ]

  def save(self, ids: Sequence[str], states: Sequence[Any], round_number: int) -> None:
    """Adds a version of each client, in one transaction."""
    self._refuse_past(round_number)
    t = _ROUND.pack(round_number)

    def write(txn, meta):
      for client, state in zip(ids, states, strict=True):
        txn.put(_key(client) + t, self._codec.of(client).encode(state))
      txn.put(b"j" + t, b"".join(_key(client) for client in ids))
      meta["round"] = round_number + 1

    self._transact(write)

  def snapshot(self, path: str | pathlib.Path) -> None:
    """Forces everything out to disk, and writes which round that was."""
    self._env.sync(True)
    pathlib.Path(path).write_text(json.dumps({"store": self._id, "round": self.round}))

  def restore(self, path: str | pathlib.Path) -> None:
    """Deletes the versions that later rounds added."""
    target = self._round_of(path)

    def write(txn, meta):
      for t, keys in _journal(txn, target, self.round):
        for key in keys:
          txn.delete(key + t)
        txn.delete(b"j" + t)
      meta["round"] = target

    self._transact(write)

  def release(self, path: str | pathlib.Path) -> None:
    """Deletes the versions that newer ones have replaced by then."""
    target = self._round_of(path)

    def write(txn, meta):
      for t, keys in _journal(txn, 0, target):
        for key in keys:
          for old in _versions(txn, key, before=target)[:-1]:
            txn.delete(old)
        txn.delete(b"j" + t)
      meta["oldest"] = target

    self._transact(write)

  def clear(self) -> None:
    """Empties the database, which is another store from then on."""
    everything = self._env.open_db()

    def write(txn, meta):
      txn.drop(everything, delete=False)
      meta.update(store=uuid.uuid4().hex, round=0, oldest=0)

    self._transact(write)

  def close(self) -> None:
    """Closes the database."""
    self._env.close()

  def _take(self, meta: dict[str, Any]) -> None:
    self._id, self.round, self._oldest = meta["store"], meta["round"], meta["oldest"]

  def _transact(self, write: Callable[[lmdb.Transaction, dict[str, Any]], None]) -> None:
    """Runs `write` in one transaction, again with twice the room if the map is full."""
    while True:
      meta = {"store": self._id, "round": self.round, "oldest": self._oldest}
      try:
        with self._env.begin(write=True) as txn:
          write(txn, meta)
          txn.put(b"m", json.dumps(meta).encode())
        break
      except lmdb.MapFullError:
        self._env.set_mapsize(2 * self._env.info()["map_size"])
    self._take(meta)

  def _round_of(self, path: str | pathlib.Path) -> int:
    stamp = json.loads(pathlib.Path(path).read_text())
    if stamp["store"] != self._id or not self._oldest <= stamp["round"] <= self.round:
      raise ValueError(
        f"Expected a snapshot of the store {self._id} of a round from {self._oldest} to {self.round}; found "
        f"{path} of the store {stamp['store']}, round {stamp['round']}: the checkpoint and the client "
        "states do not belong together, start the run anew in another folder."
      )
    return stamp["round"]


def _key(client: str) -> bytes:
  """A key of fixed length for a client id of any length."""
  return b"s" + hashlib.blake2b(client.encode(), digest_size=16).digest()


def _newest(txn: lmdb.Transaction, key: bytes) -> Any:
  cursor = txn.cursor()
  found = cursor.prev() if cursor.set_range(key + b"\xff" * 8) else cursor.last()
  return cursor.value() if found and bytes(cursor.key()).startswith(key) else None


def _versions(txn: lmdb.Transaction, key: bytes, *, before: int) -> list[bytes]:
  """The full keys of a client's versions from rounds before `before`, oldest first."""
  cursor, end, found = txn.cursor(), key + _ROUND.pack(before), []
  more = cursor.set_range(key)
  while more and cursor.key() < end:
    found.append(cursor.key())
    more = cursor.next()
  return found


def _journal(txn: lmdb.Transaction, start: int, end: int) -> list[tuple[bytes, list[bytes]]]:
  """The packed round and the clients' keys of each round saved from `start` to before `end`."""
  cursor, last, found = txn.cursor(), b"j" + _ROUND.pack(end), []
  more = cursor.set_range(b"j" + _ROUND.pack(start))
  while more and cursor.key() < last:
    keys, size = cursor.value(), len(_key(""))
    found.append((cursor.key()[1:], [keys[k : k + size] for k in range(0, len(keys), size)]))
    more = cursor.next()
  return found
