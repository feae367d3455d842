"""Sampling without replacement by class, and the logarithm of a Dirichlet sample."""

from collections.abc import Callable

import numpy as np

# bool[classes], the classes with examples left -> the logarithms of their weights, -inf for the others
LogWeights = Callable[[np.ndarray], np.ndarray]


class ClassPools:
  """The examples of each class that no client holds yet, shuffled.

  Attributes:
    left: int[classes], the number of examples left in each class.
  """

  def __init__(self, labels: np.ndarray, rng: np.random.Generator, classes: int = 0):
    count = max(int(labels.max()) + 1, classes)
    self._rng = rng
    self._pools = [rng.permutation(np.flatnonzero(labels == k)) for k in range(count)]
    self.left = np.array([len(pool) for pool in self._pools])

  def take(self, size: int, log_weights: LogWeights) -> np.ndarray:
    """Takes `size` examples; the weights are computed again whenever a class runs out."""
    taken = []
    while size > 0:
      # Logarithms, because for a small α all of q but one class underflows, and that one may be empty.
      log_p = log_weights(self.left > 0)
      p = np.exp(log_p - log_p.max())
      counts = np.minimum(self._rng.multinomial(size, p / p.sum()), self.left)
      for k in np.flatnonzero(counts):
        taken.append(self._pools[k][self.left[k] - counts[k] : self.left[k]])
      self.left = self.left - counts
      size -= int(counts.sum())
    return np.sort(np.concatenate(taken)) if taken else np.zeros([0], np.int64)


def log_dirichlet(rng: np.random.Generator, alpha: np.ndarray) -> np.ndarray:
  """Returns log q up to a constant, for q ~ Dir(alpha); exact for small alpha, -inf where alpha is zero."""
  log_q = np.full(len(alpha), -np.inf)
  positive = alpha > 0
  # G(a) = G(a + 1)·U^(1/a) for a Gamma variable G and a uniform U; the logarithm does not underflow.
  log_q[positive] = (
    np.log(rng.gamma(alpha[positive] + 1)) + np.log(rng.random(positive.sum())) / alpha[positive]
  )
  return log_q
