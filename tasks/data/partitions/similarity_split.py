"""The split by similarity: s % of a client's examples are IID, the rest are sorted by label (SCAFFOLD)."""

import numpy as np

from tasks.data.partitions.parts import Parts, check_num_clients, cut, equal_sizes
from tff_momentum import validation


def sorted_similarity(labels: np.ndarray, num_clients: int, similarity: float, seed: int) -> Parts:
  """Gives each client `similarity` % random examples; the rest are neighbours in the order of the labels.

  Args:
    labels: the class of each example, or any number to sort by.
    num_clients: number of clients; their sizes differ by at most one.
    similarity: percentage, from 0 (sorted) to 100 (IID).
    seed: seed of the split.

  Returns:
    The example numbers of each client.

  Raises:
    ValueError: an argument is invalid.

  >>> sorted_similarity(np.array([2, 0, 2, 1, 0, 1]), num_clients=3, similarity=0, seed=0)
  [array([1, 4]), array([3, 5]), array([0, 2])]
  """
  validation.number("similarity", similarity, at_least=0, at_most=100)
  labels = np.asarray(labels)
  check_num_clients(num_clients, len(labels))
  rng = np.random.default_rng(seed)
  order = rng.permutation(len(labels))
  shared = round(len(labels) * similarity / 100)
  by_label = order[shared:][np.argsort(labels[order[shared:]], kind="stable")]
  # The larger IID parts go to the last clients and the larger sorted parts to the first, so that the totals
  # differ by at most one.
  random = cut(order[:shared], equal_sizes(shared, num_clients)[::-1])
  rest = cut(by_label, equal_sizes(len(by_label), num_clients))
  return [np.sort(np.concatenate(pair)) for pair in zip(random, rest, strict=True)]


def iid(labels: np.ndarray, num_clients: int, seed: int) -> Parts:
  """Splits examples at random into parts whose sizes differ by at most one."""
  return sorted_similarity(labels, num_clients, 100, seed)
