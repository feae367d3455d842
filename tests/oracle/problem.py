"""The arguments and results of every oracle, and their shared helpers, all of which the testing kit defines.

Users of the kit write their oracles with the same helpers.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np

from tff_momentum.testing.oracle import G, Rate, at, batches, examples, g, mean, rounds, trace
from tff_momentum.testing.oracle import OracleProblem as Problem
from tff_momentum.testing.oracle import OracleTrace as Trace

__all__ = [
  "G",
  "Problem",
  "Rate",
  "Trace",
  "at",
  "batches",
  "examples",
  "g",
  "least_squares",
  "mean",
  "rounds",
  "trace",
]


def least_squares(
  seed: int,
  sizes: Sequence[int],
  dimension: int = 4,
  batch_size: int = 3,
  **fields: Any,
) -> Problem:
  """Linear regression: client i has sizes[i] rows, and a truth and scales of its own."""
  random = np.random.default_rng(seed)
  clients = []
  for n in sizes:
    rows = random.normal(size=(n, dimension)) * random.uniform(0.5, 1.5, size=dimension)
    targets = rows @ random.normal(size=dimension) + random.normal(size=n)
    cuts = range(0, n, batch_size)
    clients.append([(rows[k : k + batch_size], targets[k : k + batch_size]) for k in cuts])
  return Problem(
    x0=random.normal(size=dimension),
    clients=clients,
    gradient=lambda y, b: b[0].T @ (b[0] @ y - b[1]) / len(b[1]),
    size=lambda b: len(b[1]),
    splits=(1, dimension - 1),
    **fields,
  )
