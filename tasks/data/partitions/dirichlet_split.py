"""The Dirichlet label split (Hsu et al. 2019; GHBM, appendix C.2)."""

from collections.abc import Sequence

import numpy as np

from tasks.data.partitions.class_pools import ClassPools, log_dirichlet
from tasks.data.partitions.parts import Parts, checked_labels, equal_sizes, one_class_each
from tff_momentum import validation


def dirichlet(
  labels: np.ndarray,
  num_clients: int,
  alpha: float,
  seed: int,
  sizes: Sequence[int] | None = None,
) -> Parts:
  """Splits examples so that each client has its own distribution of labels.

  Client i draws a class distribution q_i ~ Dir(α·p), where p is the distribution of all labels, and takes
  examples by q_i without replacement. When a class runs out, the other classes share its weight.

  Args:
    labels: the class of each example, from 0.
    num_clients: number of clients.
    alpha: concentration α; a large value is IID. 0 gives each client one class, or, with fewer clients than
      classes, as few classes as possible.
    seed: seed of the split.
    sizes: number of examples of each client; by default all examples are used and the sizes differ by at
      most one.

  Returns:
    The example numbers of each client.

  Raises:
    ValueError: an argument is invalid.

  >>> dirichlet(np.array([0, 0, 0, 1, 1, 1]), num_clients=2, alpha=0, seed=1)
  [array([3, 4, 5]), array([0, 1, 2])]
  """
  validation.number("alpha", alpha, at_least=0)
  labels = checked_labels(labels, num_clients)
  rng = np.random.default_rng(seed)
  if alpha == 0 and sizes is None:
    return one_class_each(labels, num_clients, rng)
  if sizes is None:
    sizes = equal_sizes(len(labels), num_clients)
  if sum(sizes) > len(labels):
    raise ValueError(f"The clients' sizes must sum to at most {len(labels)}; found {sum(sizes)}.")
  pools = ClassPools(labels, rng)
  prior = pools.left / len(labels)
  parts: Parts = [np.zeros([0], np.int64)] * num_clients
  # In random order, because the last clients get what is left.
  for client in rng.permutation(num_clients):
    log_q = log_dirichlet(rng, max(alpha, 1e-12) * prior)

    def log_weights(available: np.ndarray, log_q: np.ndarray = log_q) -> np.ndarray:
      return np.where(available, log_q, -np.inf)

    parts[client] = pools.take(int(sizes[client]), log_weights)
  return parts
