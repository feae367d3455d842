"""Stores of what clients keep between their rounds, by client id: in memory, or on disk for many clients.

After a crash, a store and the server's checkpoint must agree. The round loop and the checkpoints use a store
like this::

    states = store.load(ids); ...; store.save(ids, states, t)         # in round t
    store.snapshot(folder / "clients")                                # while writing a checkpoint
    store.release(folder / "clients")                                 # once the checkpoint is safe on disk
    store.restore(folder / "clients")                                 # when resuming from it
    store.clear()                                                     # when starting from the beginning

`MemoryStore` writes all states into the snapshot. `LmdbStore` writes only the number of the round, and keeps
what it needs to go back to it. Every state is stored under (client, round) and never overwrites an older one;
restoring a snapshot deletes what later rounds wrote. Releasing a snapshot deletes older versions that are no
longer needed. A round is one transaction, so a process killed at any instant leaves all of its
states or none.
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
from tff_momentum.simulation.state_records import LazyStateCodec, State

_LENGTHS = struct.Struct("<IQ")


class ClientStore(abc.ABC):
  """The interface of a store of client states.

  Attributes:
    round: the number of rounds that the store has seen, as `ProcessState.round` counts them.
  """

  def __init__(self, init: Callable[[str], State]):
    """Starts with no clients.

    Args:
      init: client id -> the state of a client that has not taken part yet; see `loop.client_initializer`.
    """
    self._init = init
    self._codec = LazyStateCodec(init)
    self.round = 0

  @abc.abstractmethod
  def load(self, ids: Sequence[str]) -> list[State]:
    """Returns the states of these clients; a new client gets its state from `init`."""

  @abc.abstractmethod
  def save(self, ids: Sequence[str], states: Sequence[State], round_number: int) -> None:
    """Stores the states of these clients after a round.

    Args:
      ids: the ids of the round's clients.
      states: their new states, in the same order.
      round_number: from 0.

    Raises:
      ValueError: the store already holds this round, or a state has other types or shapes than `init`
        gives.
    """

  @abc.abstractmethod
  def snapshot(self, path: str | pathlib.Path) -> None:
    """Writes a file from which `restore` can bring back the present states."""

  @abc.abstractmethod
  def restore(self, path: str | pathlib.Path) -> None:
    """Goes back to the states of a snapshot.

    Raises:
      ValueError: the snapshot belongs to another store, algorithm or model.
    """

  @abc.abstractmethod
  def clear(self) -> None:
    """Deletes the states of all clients."""

  @abc.abstractmethod
  def release(self, path: str | pathlib.Path) -> None:
    """Promises that no snapshot older than this one will be restored."""

  @abc.abstractmethod
  def close(self) -> None:
    """Releases the store's resources; it cannot be used any more."""

  def _keeps_nothing(self, ids: Sequence[str]) -> bool:
    """Whether clients have no state, so that there is nothing to load and to save."""
    return bool(ids) and self._codec.of(ids[0]).is_empty

  def _refuse_past(self, round_number: int) -> None:
    if round_number < self.round:
      raise ValueError(
        f"Expected the states of round {self.round} or later; found round {round_number}, which the store "
        "already holds: first restore the snapshot that the run resumes from."
      )


class MemoryStore(ClientStore):
  """Keeps the states of all clients that have taken part in memory.

  Example:
    >>> store = MemoryStore(lambda client: np.zeros(2))
    >>> store.save(["a"], [np.ones(2)], round_number=0)
    >>> store.load(["a", "b"])
    [array([1., 1.]), array([0., 0.])]
  """

  def __init__(self, init: Callable[[str], State]):
    """Starts with no clients.

    Args:
      init: client id -> the state of a client that has not taken part yet.
    """
    super().__init__(init)
    self._states: dict[str, State] = {}

  def load(self, ids: Sequence[str]) -> list[State]:
    """Returns the states of these clients; a new client gets its state from `init`."""
    if self._keeps_nothing(ids):
      return [self._init(ids[0])] * len(ids)
    return [self._states[i] if i in self._states else self._init(i) for i in ids]

  def save(self, ids: Sequence[str], states: Sequence[State], round_number: int) -> None:
    """Replaces the states of these clients."""
    self._refuse_past(round_number)
    if not self._keeps_nothing(ids):
      for client, state in zip(ids, states, strict=True):
        self._states[client] = tf.nest.map_structure(np.asarray, state)
    self.round = round_number + 1

  def snapshot(self, path: str | pathlib.Path) -> None:
    """Writes the states of all clients."""
    with open(path, "wb") as file:
      file.write(_LENGTHS.pack(len(self._states), self.round))
      for client, state in self._states.items():
        record, name = self._codec.of(client).encode(state), client.encode()
        file.write(_LENGTHS.pack(len(name), len(record)) + name)
        file.write(record)

  def restore(self, path: str | pathlib.Path) -> None:
    """Reads the states of all clients."""
    states = {}
    with open(path, "rb") as file:
      clients, round_number = _LENGTHS.unpack(file.read(_LENGTHS.size))
      for _ in range(clients):
        name, record = (file.read(n) for n in _LENGTHS.unpack(file.read(_LENGTHS.size)))
        client = name.decode()
        states[client] = self._codec.of(client).decode(record)
    self._states, self.round = states, round_number

  def clear(self) -> None:
    """Deletes the states of all clients."""
    self._states, self.round = {}, 0

  def release(self, path: str | pathlib.Path) -> None:
    """Does nothing: a snapshot holds all states itself."""

  def close(self) -> None:
    """Does nothing: there are no resources to release."""


class LmdbStore(ClientStore):
  """Keeps the states on disk; only those of the present and the previous cohort are in memory.

  A background thread writes a round while the next one trains. States that are not yet on disk are loaded
  from memory; `snapshot` waits until they are written.

  Example:
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...   store = LmdbStore(folder, lambda client: np.zeros(2))
    ...   store.save(["a"], [np.ones(2)], round_number=0)
    ...   store.close()
    ...   store = LmdbStore(folder, lambda client: np.zeros(2))
    ...   store.load(["a", "b"])
    ...   store.close()
    [array([1., 1.]), array([0., 0.])]
  """

  def __init__(
    self, path: str | pathlib.Path, init: Callable[[str], State], *, map_bytes: int = 2**26
  ):
    """Opens the store in the folder `path`, or creates it.

    Args:
      path: a folder that nothing else uses.
      init: client id -> the state of a client that has not taken part yet.
      map_bytes: initial size limit of the database; it doubles when it is reached.
    """
    super().__init__(init)
    # Without metasync, a power failure may undo the last rounds but nothing else; `snapshot` syncs all.
    self._env = lmdb.open(str(path), map_size=map_bytes, max_dbs=3, metasync=False)
    self._versions = VersionedRecords(self._env)
    self._map_lock = threading.Lock()  # LMDB allows no open transaction while the map grows
    self._writer = concurrent.futures.ThreadPoolExecutor(max_workers=1)
    self._writing: concurrent.futures.Future | None = None
    self._unwritten: dict[str, State] = {}
    with self._env.begin() as txn:
      meta = txn.get(b"m")
    if meta:
      self._set_meta(json.loads(meta))
    else:
      self.clear()

  def load(self, ids: Sequence[str]) -> list[State]:
    """Returns the newest version of each client's state; a new client gets its state from `init`."""
    if self._keeps_nothing(ids):
      return [self._init(ids[0])] * len(ids)
    with self._map_lock, self._env.begin(buffers=True) as txn:
      return [self._load(txn, client) for client in ids]

  def save(self, ids: Sequence[str], states: Sequence[State], round_number: int) -> None:
    """Adds a version of each client's state, in one transaction."""
    self._refuse_past(round_number)
    self._wait()
    codec = self._codec.of(ids[0])
    kept = () if codec.is_empty else zip(ids, states, strict=True)
    unwritten = {i: codec.arrays(state) for i, state in kept}
    self._unwritten, self.round = unwritten, round_number + 1

    def write(txn: lmdb.Transaction) -> None:
      self._versions.add(
        txn, round_number, ((i, codec.encode(state)) for i, state in unwritten.items())
      )

    self._writing = self._writer.submit(self._transact, write, self._meta())

  def snapshot(self, path: str | pathlib.Path) -> None:
    """Syncs everything to disk and writes the number of the round."""
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
    """Deletes the versions that newer ones had replaced by the time of the snapshot."""
    self._wait()
    target = self._oldest = self._round_of(path)
    self._transact(lambda txn: self._versions.prune(txn, target), self._meta())

  def clear(self) -> None:
    """Empties the database and gives it a new identity: older snapshots no longer fit."""
    self._wait()
    self._set_meta({"store": uuid.uuid4().hex, "round": 0, "oldest": 0})
    self._transact(self._versions.drop, self._meta())

  def close(self) -> None:
    """Waits until the last round is written and closes the database."""
    self._wait()
    self._writer.shutdown()
    self._env.close()

  def _load(self, txn: lmdb.Transaction, client: str) -> State:
    if client in self._unwritten:
      return self._unwritten[client]
    record = self._versions.newest(txn, client)
    return self._init(client) if record is None else self._codec.of(client).decode(record)

  def _wait(self) -> None:
    """Waits until the last round is written; raises the error of the writer, if any."""
    if self._writing is not None:
      self._writing.result()
    self._writing, self._unwritten = None, {}

  def _set_meta(self, meta: dict[str, Any]) -> None:
    self._id, self.round, self._oldest = meta["store"], meta["round"], meta["oldest"]

  def _meta(self) -> dict[str, Any]:
    """The database's record of itself: its identity, its round, and the oldest round it can go back to."""
    return {"store": self._id, "round": self.round, "oldest": self._oldest}

  def _transact(self, write: Callable[[lmdb.Transaction], None], meta: dict[str, Any]) -> None:
    """Runs `write` in one transaction; if the map is full, doubles it and tries again."""
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
        "states do not belong together; start the run again in another folder."
      )
    return stamp["round"]
