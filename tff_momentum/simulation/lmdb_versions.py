"""Versions of clients' records in an LMDB environment: nothing is overwritten, so every round can be undone.

Three databases: `records`, digest of the client's id + round -> record; `rounds`, the same keys with no
value; `journal`, round -> the digests of its clients. Only single records are read of the first: a cursor
that moves over large values makes the kernel read them all.
"""

import hashlib
import struct
from collections.abc import Iterable
from typing import Any

import lmdb

_ROUND = struct.Struct(">Q")  # big-endian, so that keys are in the order of the rounds
_DIGEST_BYTES = 16


class VersionedRecords:
  """The versions in an environment, which must have room for three databases; all within transactions."""

  def __init__(self, env: lmdb.Environment):
    self._records = env.open_db(b"records")
    self._rounds = env.open_db(b"rounds")
    self._journal = env.open_db(b"journal")

  def newest(self, txn: lmdb.Transaction, client: str) -> Any:
    """The newest record of a client, None if there is none; a buffer if the transaction uses them."""
    cursor, digest = txn.cursor(self._rounds), _digest(client)
    found = cursor.prev() if cursor.set_range(digest + b"\xff" * _ROUND.size) else cursor.last()
    key = bytes(cursor.key()) if found else b""
    return txn.get(key, db=self._records) if key.startswith(digest) else None

  def add(
    self, txn: lmdb.Transaction, round_number: int, records: Iterable[tuple[str, bytes]]
  ) -> None:
    """Adds what (client, record) a round has brought."""
    t, digests = _ROUND.pack(round_number), []
    for client, record in records:
      digests.append(_digest(client))
      txn.put(digests[-1] + t, record, db=self._records)
      txn.put(digests[-1] + t, b"", db=self._rounds)
    txn.put(t, b"".join(digests), db=self._journal)

  def undo(self, txn: lmdb.Transaction, start: int, end: int) -> None:
    """Deletes what the rounds from `start` to before `end` have added."""
    for t, digests in self._rounds_between(txn, start, end):
      for digest in digests:
        self._delete(txn, digest + t)
      txn.delete(t, db=self._journal)

  def prune(self, txn: lmdb.Transaction, end: int) -> None:
    """Makes the rounds before `end` final: keeps the newest of each client's versions from then."""
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
    """How many versions there are, of all clients."""
    return txn.stat(self._rounds)["entries"]

  def _delete(self, txn: lmdb.Transaction, key: bytes) -> None:
    txn.delete(key, db=self._records)
    txn.delete(key, db=self._rounds)

  def _keys_before(self, txn: lmdb.Transaction, digest: bytes, end: int) -> list[bytes]:
    """The keys of a client's versions from before round `end`, oldest first."""
    cursor, last, found = txn.cursor(self._rounds), digest + _ROUND.pack(end), []
    more = cursor.set_range(digest)
    while more and cursor.key() < last:
      found.append(cursor.key())
      more = cursor.next()
    return found

  def _rounds_between(
    self, txn: lmdb.Transaction, start: int, end: int
  ) -> list[tuple[bytes, list[bytes]]]:
    """The packed round and the clients' digests of each round saved from `start` to before `end`."""
    cursor, last, found = txn.cursor(self._journal), _ROUND.pack(end), []
    more = cursor.set_range(_ROUND.pack(start))
    while more and cursor.key() < last:
      joined = cursor.value()
      digests = [joined[k : k + _DIGEST_BYTES] for k in range(0, len(joined), _DIGEST_BYTES)]
      found.append((cursor.key(), digests))
      more = cursor.next()
    return found


def _digest(client: str) -> bytes:
  """Of fixed length, for a client id of any length."""
  return hashlib.blake2b(client.encode(), digest_size=_DIGEST_BYTES).digest()
