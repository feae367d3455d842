"""Versioned client records in an LMDB environment. Nothing is overwritten, so every round can be undone.

There are three databases:

* `records`: digest of the client's id + round -> record;
* `rounds`: the same keys without values;
* `journal`: round -> the digests of its clients.

Searches use `rounds`, and only single records are read from `records`: a cursor that moves over large values
makes the kernel read all of them.
"""

import hashlib
import struct
from collections.abc import Iterable

import lmdb

_ROUND = struct.Struct(">Q")  # big-endian, so that keys sort by round
_DIGEST_BYTES = 16


class VersionedRecords:
  """The versions of all clients' records. Every method works inside a transaction of the caller's."""

  def __init__(self, env: lmdb.Environment):
    """Opens the databases.

    Args:
      env: an environment that was opened with `max_dbs` of at least 3.
    """
    self._records = env.open_db(b"records")
    self._rounds = env.open_db(b"rounds")
    self._journal = env.open_db(b"journal")

  def newest(self, txn: lmdb.Transaction, client: str) -> bytes | memoryview | None:
    """Returns a client's newest record, or None; a memoryview if the transaction uses buffers."""
    cursor, digest = txn.cursor(self._rounds), _digest(client)
    found = cursor.prev() if cursor.set_range(digest + b"\xff" * _ROUND.size) else cursor.last()
    key = bytes(cursor.key()) if found else b""
    return txn.get(key, db=self._records) if key.startswith(digest) else None

  def add(
    self, txn: lmdb.Transaction, round_number: int, records: Iterable[tuple[str, bytes]]
  ) -> None:
    """Adds the (client, record) pairs of a round."""
    t, digests = _ROUND.pack(round_number), []
    for client, record in records:
      digests.append(_digest(client))
      txn.put(digests[-1] + t, record, db=self._records)
      txn.put(digests[-1] + t, b"", db=self._rounds)
    txn.put(t, b"".join(digests), db=self._journal)

  def undo(self, txn: lmdb.Transaction, start: int, end: int) -> None:
    """Deletes what the rounds start, ..., end − 1 added."""
    for t, digests in self._rounds_between(txn, start, end):
      for digest in digests:
        self._delete(txn, digest + t)
      txn.delete(t, db=self._journal)

  def prune(self, txn: lmdb.Transaction, end: int) -> None:
    """Makes the rounds before `end` final: of each client's versions from them, only the newest stays."""
    for t, digests in self._rounds_between(txn, 0, end):
      for digest in digests:
        for old in self._keys_before(txn, digest, end)[:-1]:
          self._delete(txn, old)
      txn.delete(t, db=self._journal)

  def drop(self, txn: lmdb.Transaction) -> None:
    """Deletes everything."""
    for database in (self._records, self._rounds, self._journal):
      txn.drop(database, delete=False)

  def count(self, txn: lmdb.Transaction) -> int:
    """Returns the number of versions of all clients together."""
    return txn.stat(self._rounds)["entries"]

  def _delete(self, txn: lmdb.Transaction, key: bytes) -> None:
    txn.delete(key, db=self._records)
    txn.delete(key, db=self._rounds)

  def _keys_before(self, txn: lmdb.Transaction, digest: bytes, end: int) -> list[bytes]:
    """The keys of a client's versions from the rounds before `end`, oldest first."""
    cursor, last, found = txn.cursor(self._rounds), digest + _ROUND.pack(end), []
    more = cursor.set_range(digest)
    while more and cursor.key() < last:
      found.append(cursor.key())
      more = cursor.next()
    return found

  def _rounds_between(
    self, txn: lmdb.Transaction, start: int, end: int
  ) -> list[tuple[bytes, list[bytes]]]:
    """The packed number and the clients' digests of each of the rounds start, ..., end − 1."""
    cursor, last, found = txn.cursor(self._journal), _ROUND.pack(end), []
    more = cursor.set_range(_ROUND.pack(start))
    while more and cursor.key() < last:
      joined = cursor.value()
      digests = [joined[k : k + _DIGEST_BYTES] for k in range(0, len(joined), _DIGEST_BYTES)]
      found.append((cursor.key(), digests))
      more = cursor.next()
    return found


def _digest(client: str) -> bytes:
  """A key of fixed length for a client id of any length."""
  return hashlib.blake2b(client.encode(), digest_size=_DIGEST_BYTES).digest()
