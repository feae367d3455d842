"""Versions of clients' records in an LMDB database: nothing is overwritten, so every round can be undone.

s + digest of the client's id + round -> record;  j + round -> the digests of the round's clients.
"""

import hashlib
import struct
from collections.abc import Iterable
from typing import Any

import lmdb

_ROUND = struct.Struct(">Q")  # big-endian, so that keys are in the order of the rounds
_KEY_BYTES = 17


def key_of(client: str) -> bytes:
  """A key of fixed length for a client id of any length."""
  return b"s" + hashlib.blake2b(client.encode(), digest_size=_KEY_BYTES - 1).digest()


def newest(txn: lmdb.Transaction, client: str) -> Any:
  """The newest record of a client, None if there is none; a buffer if the transaction uses them."""
  cursor, key = txn.cursor(), key_of(client)
  found = cursor.prev() if cursor.set_range(key + b"\xff" * _ROUND.size) else cursor.last()
  return cursor.value() if found and bytes(cursor.key()).startswith(key) else None


def add(txn: lmdb.Transaction, round_number: int, records: Iterable[tuple[str, bytes]]) -> None:
  """Adds what (client, record) a round has brought."""
  t, keys = _ROUND.pack(round_number), []
  for client, record in records:
    keys.append(key_of(client))
    txn.put(keys[-1] + t, record)
  txn.put(b"j" + t, b"".join(keys))


def undo(txn: lmdb.Transaction, start: int, end: int) -> None:
  """Deletes what the rounds from `start` to before `end` have added."""
  for t, keys in _journal(txn, start, end):
    for key in keys:
      txn.delete(key + t)
    txn.delete(b"j" + t)


def prune(txn: lmdb.Transaction, end: int) -> None:
  """Makes the rounds before `end` final: keeps the newest of each client's versions from then."""
  for t, keys in _journal(txn, 0, end):
    for key in keys:
      for old in _versions(txn, key, end)[:-1]:
        txn.delete(old)
    txn.delete(b"j" + t)


def _versions(txn: lmdb.Transaction, key: bytes, end: int) -> list[bytes]:
  """The full keys of a client's versions from before `end`, oldest first."""
  cursor, last, found = txn.cursor(), key + _ROUND.pack(end), []
  more = cursor.set_range(key)
  while more and cursor.key() < last:
    found.append(cursor.key())
    more = cursor.next()
  return found


def _journal(txn: lmdb.Transaction, start: int, end: int) -> list[tuple[bytes, list[bytes]]]:
  """The packed round and the clients' keys of each round saved from `start` to before `end`."""
  cursor, last, found = txn.cursor(), b"j" + _ROUND.pack(end), []
  more = cursor.set_range(b"j" + _ROUND.pack(start))
  while more and cursor.key() < last:
    keys = cursor.value()
    clients = [keys[k : k + _KEY_BYTES] for k in range(0, len(keys), _KEY_BYTES)]
    found.append((cursor.key()[1:], clients))
    more = cursor.next()
  return found
