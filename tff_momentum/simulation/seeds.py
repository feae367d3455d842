"""All randomness of a run, as pure functions of (seed, round, client, purpose).

The same seed therefore gives the same numbers whatever the threads do, and a resumed run draws the same
numbers as one that never stopped.
"""

import hashlib
from collections.abc import Iterable

import numpy as np

# One number for each use of randomness, so that no two uses share a stream.
COHORT, CLIENT, NEW_CLIENT, SHUFFLE, STEPS, DROPOUT, AVAILABILITY, SPEED, CLOCK, DIAGNOSTICS = (
  range(10)
)
POOL, CLIENT_EVAL, NOISE = range(10, 13)


def generator(seed: int, purpose: int, *numbers: int) -> np.random.Generator:
  """Returns an independent NumPy generator for each purpose and, for example, round.

  Args:
    seed: the run's seed.
    purpose: one of this module's constants.
    numbers: what else the stream depends on, such as the round number.

  Example:
    >>> generator(0, COHORT, 5).random() == generator(0, COHORT, 5).random()
    True
    >>> generator(0, COHORT, 5).random() == generator(0, DROPOUT, 5).random()
    False
  """
  return np.random.default_rng(np.random.SeedSequence((seed, purpose, *numbers)))


def client_seed(seed: int, purpose: int, round_number: int, client: str) -> np.ndarray:
  """Returns a seed for TensorFlow's stateless random functions, int32[2].

  Args:
    seed: the run's seed.
    purpose: one of this module's constants.
    round_number: from 0.
    client: the client's id.
  """
  return client_seeds(seed, purpose, round_number, [client])[0]


def client_seeds(
  seed: int, purpose: int, round_number: int, clients: Iterable[str]
) -> list[np.ndarray]:
  """Returns `client_seed` of each client.

  A round draws two seeds for each client of its cohort, so they are hashes, which take a microsecond each.
  """
  key = hashlib.blake2b(repr((seed, purpose, round_number)).encode(), digest_size=32).digest()
  digests = [hashlib.blake2b(c.encode(), digest_size=8, key=key).digest() for c in clients]
  return list(np.frombuffer(b"".join(digests), "<i4").astype(np.int32).reshape(-1, 2))
