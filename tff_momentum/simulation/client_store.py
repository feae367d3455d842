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
import concurrent.futures
import json
import pathlib
import struct
import threading
import uuid
from collections.abc import Callable, Sequence
from typing import Any

import lmdb
import numpy as np
import tensorflow as tf

from tff_momentum.simulation.lmdb_versions import VersionedRecords
from tff_momentum.simulation.state_records import LazyStateCodec

_LENGTHS = struct.Struct("<IQ")


class ClientStore(abc.ABC):
  """A store of clients' states.

  Attributes:
    round: the number of rounds that the states have been through, as `ProcessState.round` counts them.
  """

  def __init__(self, init: Callable[[str], Any]):
    """Takes what gives a client that was never seen its first state."""
    self._init = init
    self._codec = LazyStateCodec(init)
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


class MemoryStore(ClientStore):
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


class LmdbStore(ClientStore):
  """Keeps the states on disk; only those of the cohort and of the last one are in memory.

  A round is written in the background while the next one computes. What is not yet on disk is answered
  from memory; `snapshot` waits for it.
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
    self._env = lmdb.open(str(path), map_size=map_bytes, max_dbs=3, metasync=False)
    self._versions = VersionedRecords(self._env)
    self._map_lock = threading.Lock()  # no other transaction may be open when the map grows
    self._writer = concurrent.futures.ThreadPoolExecutor(max_workers=1)
    self._writing: concurrent.futures.Future | None = None
    self._unwritten: dict[str, Any] = {}
    with self._env.begin() as txn:
      meta = txn.get(b"m")
    if meta:
      self._take(json.loads(meta))
    else:
      self.clear()

  def load(self, ids: Sequence[str]) -> list[Any]:
    """Reads the newest version of each client."""
    with self._map_lock, self._env.begin(buffers=True) as txn:
      return [self._load(txn, client) for client in ids]

  def save(self, ids: Sequence[str], states: Sequence[Any], round_number: int) -> None:
    """Adds a version of each client, in one transaction."""
    self._refuse_past(round_number)
    self._wait()
    codec = self._codec.of(ids[0])
    unwritten = {i: codec.arrays(state) for i, state in zip(ids, states, strict=True)}
    self._unwritten, self.round = unwritten, round_number + 1

    def write(txn):
      self._versions.add(
        txn, round_number, ((i, codec.encode(state)) for i, state in unwritten.items())
      )

    self._writing = self._writer.submit(self._transact, write, self._meta())

  def snapshot(self, path: str | pathlib.Path) -> None:
    """Forces everything out to disk, and writes which round that was."""
    self._wait()
    self._env.sync(True)
    pathlib.Path(path).write_text(json.dumps({"store": self._id, "round": self.round}))

  def restore(self, path: str | pathlib.Path) -> None:
    """Deletes the versions that later rounds added."""
    self._wait()
    target, end = self._round_of(path), self.round
    self.round = target
    self._transact(lambda txn: self._versions.undo(txn, target, end), self._meta())

  def release(self, path: str | pathlib.Path) -> None:
    """Deletes the versions that newer ones had replaced by then."""
    self._wait()
    target = self._oldest = self._round_of(path)
    self._transact(lambda txn: self._versions.prune(txn, target), self._meta())

  def clear(self) -> None:
    """Empties the database, which is another store from then on."""
    self._wait()
    self._take({"store": uuid.uuid4().hex, "round": 0, "oldest": 0})
    self._transact(self._versions.drop, self._meta())

  def close(self) -> None:
    """Writes what is unwritten and closes the database."""
    self._wait()
    self._writer.shutdown()
    self._env.close()

  def _load(self, txn: lmdb.Transaction, client: str) -> Any:
    if client in self._unwritten:
      return self._unwritten[client]
    record = self._versions.newest(txn, client)
    return self._init(client) if record is None else self._codec.of(client).decode(record)

  def _wait(self) -> None:
    """Waits for the last round to be written, and raises what went wrong with it."""
    if self._writing is not None:
      self._writing.result()
    self._writing, self._unwritten = None, {}

  def _take(self, meta: dict[str, Any]) -> None:
    self._id, self.round, self._oldest = meta["store"], meta["round"], meta["oldest"]

  def _meta(self) -> dict[str, Any]:
    """What the database knows of itself: which store, which round, how far back it can go."""
    return {"store": self._id, "round": self.round, "oldest": self._oldest}

  def _transact(self, write: Callable[[lmdb.Transaction], None], meta: dict[str, Any]) -> None:
    """Runs `write` in one transaction, again with twice the room if the map is full."""
    while True:
      try:
        with self._env.begin(write=True) as txn:
          write(txn)
          txn.put(b"m", json.dumps(meta).encode())
        return
      except lmdb.MapFullError:
        with self._map_lock:
          self._env.set_mapsize(2 * self._env.info()["map_size"])

  def _round_of(self, path: str | pathlib.Path) -> int:
    stamp = json.loads(pathlib.Path(path).read_text())
    if stamp["store"] != self._id or not self._oldest <= stamp["round"] <= self.round:
      raise ValueError(
        f"Expected a snapshot of the store {self._id} of a round from {self._oldest} to {self.round}; found "
        f"{path} of the store {stamp['store']}, round {stamp['round']}: the checkpoint and the client "
        "states do not belong together, start the run anew in another folder."
      )
    return stamp["round"]
