"""The split by number of classes per client (McMahan et al. 2017; FedGLOMO, appendix E)."""

import numpy as np

from tasks.data.partitions.parts import Parts, checked_labels, one_class_each
from tff_momentum import validation


def classes_per_client(labels: np.ndarray, num_clients: int, classes: int, seed: int) -> Parts:
  """Gives each client examples of at most `classes` classes.

  The examples are cut into num_clients · classes shards of equal size, none of which spans two classes, and
  each client gets `classes` random shards.

  Args:
    labels: the class of each example, from 0.
    num_clients: number of clients.
    classes: largest number of classes of a client.
    seed: seed of the split.

  Returns:
    The example numbers of each client.

  Raises:
    ValueError: an argument is invalid.

  >>> classes_per_client(np.array([0, 0, 1, 1, 2, 2]), num_clients=3, classes=1, seed=0)
  [array([0, 1]), array([2, 3]), array([4, 5])]
  """
  validation.integer("classes per client", classes, at_least=1)
  labels = checked_labels(labels, num_clients)
  rng = np.random.default_rng(seed)
  shards = one_class_each(labels, num_clients * classes, rng)
  order = rng.permutation(len(shards))
  return [
    np.sort(np.concatenate([shards[k] for k in order[i * classes : (i + 1) * classes]]))
    for i in range(num_clients)
  ]
