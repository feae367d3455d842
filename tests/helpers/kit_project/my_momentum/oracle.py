"""The algorithm in NumPy."""

import numpy as np

from tff_momentum.testing.oracle import batches, g, mean, rounds, trace


def momentum(problem, cohorts, *, client_learning_rate, beta=0.5):
  """The same as `momentum.momentum`."""
  x, m, last, after = problem.x0, np.zeros_like(problem.x0), {}, {}
  for t, S in rounds(problem, cohorts):
    uploads = []
    for i in S:
      y = x
      for b in batches(problem, i):
        y = y - client_learning_rate * g(problem, y, b)
      uploads.append(0.75 * (x - y) + 0.25 * last.get(i, 0.0))
      last[i] = x - y
    m = beta * m + mean(problem, S, "num_examples")(uploads)
    x = after[t] = x - m
  return trace(problem, cohorts, after)
