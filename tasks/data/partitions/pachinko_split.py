"""The split by Pachinko allocation, as TFF split CIFAR-100 (Reddi et al. 2021)."""

import numpy as np

from tasks.data.partitions.class_pools import ClassPools, log_dirichlet
from tasks.data.partitions.parts import Parts, checked_labels, equal_sizes
from tff_momentum import validation


def pachinko(
  labels: np.ndarray,
  coarse_of_fine: np.ndarray,
  num_clients: int,
  seed: int,
  root_alpha: float = 0.1,
  leaf_alpha: float = 10.0,
) -> Parts:
  """Splits examples by a two-level tree of labels.

  A client draws a distribution over the coarse labels and, for each of them, one over its fine labels. It
  takes examples by walking down the tree, without replacement.

  Args:
    labels: the fine label of each example, from 0.
    coarse_of_fine: the coarse label of each fine label.
    num_clients: number of clients; their sizes differ by at most one.
    seed: seed of the split.
    root_alpha: concentration of the symmetric Dirichlet distribution over coarse labels.
    leaf_alpha: concentration of the symmetric Dirichlet distribution over the fine labels of a coarse one.

  Returns:
    The example numbers of each client.

  Raises:
    ValueError: an argument is invalid.
  """
  validation.number("root_alpha", root_alpha, above=0)
  validation.number("leaf_alpha", leaf_alpha, above=0)
  labels = checked_labels(labels, num_clients)
  coarse_of_fine = np.asarray(coarse_of_fine)
  if len(coarse_of_fine) < labels.max() + 1:
    raise ValueError(
      f"Every class needs a coarse label: expected {labels.max() + 1}; found {len(coarse_of_fine)}."
    )
  rng = np.random.default_rng(seed)
  pools = ClassPools(labels, rng, classes=len(coarse_of_fine))
  num_coarse = int(coarse_of_fine.max()) + 1
  parts: Parts = []
  for size in equal_sizes(len(labels), num_clients):
    log_root = log_dirichlet(rng, np.full(num_coarse, root_alpha))
    log_leaf = np.zeros(len(coarse_of_fine))
    for coarse in range(num_coarse):
      fine = np.flatnonzero(coarse_of_fine == coarse)
      log_leaf[fine] = log_dirichlet(rng, np.full(len(fine), leaf_alpha))

    def log_weights(
      available: np.ndarray, log_root: np.ndarray = log_root, log_leaf: np.ndarray = log_leaf
    ) -> np.ndarray:
      leaf = np.where(available, log_leaf, -np.inf)  # siblings share the weight of an empty leaf
      total = np.full(num_coarse, -np.inf)
      np.logaddexp.at(total, coarse_of_fine, leaf)
      share = np.where(available, leaf - np.where(available, total[coarse_of_fine], 0), -np.inf)
      return log_root[coarse_of_fine] + share

    parts.append(pools.take(size, log_weights))
  return parts
