"""All randomness of a run, as functions of (seed, round, client, purpose) and of nothing else.

So the same seed gives the same numbers whatever the threads do, and a resumed run goes on as if it had
never stopped.
"""

import hashlib

import numpy as np

# One number for each use of randomness, so that no two share a stream.
COHORT, CLIENT, NEW_CLIENT, SHUFFLE, STEPS, DROPOUT, AVAILABILITY, SPEED, CLOCK, DIAGNOSTICS = (
  range(10)
)


def generator(seed: int, purpose: int, *numbers: int) -> np.random.Generator:
  """A generator of its own for each purpose and, say, round."""
  return np.random.default_rng(np.random.SeedSequence((seed, purpose, *numbers)))


def client_seed(seed: int, purpose: int, round_number: int, client: str) -> np.ndarray:
  """A seed for TensorFlow's stateless functions, int32[2]."""
  number = int.from_bytes(hashlib.blake2b(client.encode(), digest_size=16).digest())
  words = np.random.SeedSequence((seed, purpose, round_number, number))
  return words.generate_state(2).astype(np.uint32).view(np.int32)
