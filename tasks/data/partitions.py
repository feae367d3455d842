"""Who holds which example: splits of a labelled data set over clients, in NumPy alone.

Each function returns one array of example numbers per client. No example is given twice, and the same
seed gives the same split on every machine.
"""

import functools
import itertools
from collections.abc import Callable, Sequence

import numpy as np

from tff_momentum import validation

Parts = list[np.ndarray]


def dirichlet(
  labels: np.ndarray,
  num_clients: int,
  alpha: float,
  seed: int,
  sizes: Sequence[int] | None = None,
) -> Parts:
  """Label skew by a Dirichlet law (Hsu et al. 2019; the GHBM paper C.2).

  Client i draws its class distribution q_i ~ Dir(α·p), p being that of all labels, then takes its
  examples by q_i without replacement; a class that has run out leaves its share to the others.

  Args:
    labels: the class of each example, from 0.
    num_clients: how many clients.
    alpha: α; large is IID. 0 gives one class to each client (or, with fewer clients than classes, as
      few classes as will do).
    seed: of the split.
    sizes: how many examples each client gets; equal (to within one) and all together if not said.
  """
  validation.number("alpha", alpha, at_least=0)
  labels = _checked(labels, num_clients)
  rng = np.random.default_rng(seed)
  if alpha == 0 and sizes is None:
    return _one_class_each(labels, num_clients, rng)
  if sizes is None:
    sizes = _equal_sizes(len(labels), num_clients)
  if sum(sizes) > len(labels):
    raise ValueError(f"The clients' sizes must sum to at most {len(labels)}; found {sum(sizes)}.")
  pools = _Pools(labels, rng)
  prior = pools.left / len(labels)
  parts: Parts = [np.zeros([0], np.int64)] * num_clients
  for client in rng.permutation(
    num_clients
  ):  # who comes last gets what is left: nobody in particular
    log_q = _log_dirichlet(rng, max(alpha, 1e-12) * prior)
    parts[client] = pools.take(int(sizes[client]), functools.partial(_where, log_q))
  return parts


def classes_per_client(labels: np.ndarray, num_clients: int, classes: int, seed: int) -> Parts:
  """At most `classes` classes each (McMahan et al. 2017; the FedGLOMO paper appendix E).

  The examples of each class are cut into equal shards, num_clients · classes in all, none of which spans two
  classes; every client is dealt `classes` of them.
  """
  validation.integer("classes per client", classes, at_least=1)
  labels = _checked(labels, num_clients)
  rng = np.random.default_rng(seed)
  shards = _one_class_each(labels, num_clients * classes, rng)
  order = rng.permutation(len(shards))
  return [
    np.sort(np.concatenate([shards[k] for k in order[i * classes : (i + 1) * classes]]))
    for i in range(num_clients)
  ]


def sorted_similarity(labels: np.ndarray, num_clients: int, similarity: float, seed: int) -> Parts:
  """`similarity` % of each client's examples are IID, the rest come sorted by label (the SCAFFOLD paper)."""
  validation.number("similarity", similarity, at_least=0, at_most=100)
  labels = _checked(labels, num_clients, classes=False)
  rng = np.random.default_rng(seed)
  order = rng.permutation(len(labels))
  shared = round(len(labels) * similarity / 100)
  by_label = order[shared:][np.argsort(labels[order[shared:]], kind="stable")]
  # The IID part is dealt out from the other end, so that all sizes are equal to within one.
  iid = _cut(order[:shared], _equal_sizes(shared, num_clients)[::-1])
  rest = _cut(by_label, _equal_sizes(len(by_label), num_clients))
  return [np.sort(np.concatenate(pair)) for pair in zip(iid, rest, strict=True)]


def pachinko(
  labels: np.ndarray,
  coarse_of_fine: np.ndarray,
  num_clients: int,
  seed: int,
  root_alpha: float = 0.1,
  leaf_alpha: float = 10.0,
) -> Parts:
  """Pachinko allocation over a two-level tree of labels (Reddi et al. 2021), as TFF split CIFAR-100.

  A client draws a law over the coarse labels and one over the fine labels of each, and takes its
  examples by walking down the tree, without replacement.
  """
  validation.number("root_alpha", root_alpha, above=0)
  validation.number("leaf_alpha", leaf_alpha, above=0)
  labels = _checked(labels, num_clients)
  coarse_of_fine = np.asarray(coarse_of_fine)
  if len(coarse_of_fine) < labels.max() + 1:
    raise ValueError(
      f"Every class needs a coarse label: expected {labels.max() + 1}; found {len(coarse_of_fine)}."
    )
  rng = np.random.default_rng(seed)
  pools = _Pools(labels, rng, classes=len(coarse_of_fine))
  num_coarse = int(coarse_of_fine.max()) + 1
  parts: Parts = []
  for size in _equal_sizes(len(labels), num_clients):
    log_root = _log_dirichlet(rng, np.full(num_coarse, root_alpha))
    log_leaf = np.zeros(len(coarse_of_fine))
    for coarse in range(num_coarse):
      fine = np.flatnonzero(coarse_of_fine == coarse)
      log_leaf[fine] = _log_dirichlet(rng, np.full(len(fine), leaf_alpha))

    def law(some, log_root=log_root, log_leaf=log_leaf):
      leaf = np.where(some, log_leaf, -np.inf)  # an empty leaf's share goes to its siblings
      total = np.full(num_coarse, -np.inf)
      np.logaddexp.at(total, coarse_of_fine, leaf)
      share = np.where(some, leaf - np.where(some, total[coarse_of_fine], 0), -np.inf)
      return log_root[coarse_of_fine] + share

    parts.append(pools.take(size, law))
  return parts


def iid(labels: np.ndarray, num_clients: int, seed: int) -> Parts:
  """A random split into equal sizes."""
  return sorted_similarity(labels, num_clients, 100, seed)


def parse(text: str) -> Callable[[np.ndarray, int, int], Parts]:
  """The split that `--partition` spells: a function of (labels, number of clients, seed).

  Forms: `iid`, `dirichlet:ALPHA`, `classes:PER_CLIENT`, `similarity:PERCENT`.
  """
  name, _, argument = text.partition(":")
  try:
    if name == "iid" and not argument:
      return iid
    if name == "dirichlet":
      alpha = validation.number("partition=dirichlet:ALPHA", float(argument), at_least=0)
      return lambda labels, n, seed: dirichlet(labels, n, alpha, seed)
    if name == "classes":
      count = validation.integer("partition=classes:PER_CLIENT", int(argument), at_least=1)
      return lambda labels, n, seed: classes_per_client(labels, n, count, seed)
    if name == "similarity":
      percent = validation.number(
        "partition=similarity:PERCENT", float(argument), at_least=0, at_most=100
      )
      return lambda labels, n, seed: sorted_similarity(labels, n, percent, seed)
  except ValueError as error:
    if "partition=" in str(error):
      raise
  raise ValueError(
    "partition must be iid, dirichlet:ALPHA, classes:PER_CLIENT or similarity:PERCENT; "
    f"found {text!r}."
  )


class _Pools:
  """The examples of each class that nobody holds yet, shuffled."""

  def __init__(self, labels: np.ndarray, rng: np.random.Generator, classes: int = 0):
    count = max(int(labels.max()) + 1, classes)
    self._rng = rng
    self._pools = [rng.permutation(np.flatnonzero(labels == k)) for k in range(count)]
    self.left = np.array([len(pool) for pool in self._pools])

  def take(self, size: int, law: Callable[[np.ndarray], np.ndarray]) -> np.ndarray:
    """`size` examples by a law: which classes have any left -> the logarithms of their weights."""
    taken = []
    while size > 0:
      # In logarithms: for a small α all of q but one class underflows, and that one may be empty.
      log_p = law(self.left > 0)
      p = np.exp(log_p - log_p.max())
      counts = np.minimum(self._rng.multinomial(size, p / p.sum()), self.left)
      for k in np.flatnonzero(counts):
        taken.append(self._pools[k][self.left[k] - counts[k] : self.left[k]])
      self.left = self.left - counts
      size -= int(counts.sum())
    return np.sort(np.concatenate(taken)) if taken else np.zeros([0], np.int64)


def _where(log_q: np.ndarray, some: np.ndarray) -> np.ndarray:
  return np.where(some, log_q, -np.inf)


def _log_dirichlet(rng: np.random.Generator, alpha: np.ndarray) -> np.ndarray:
  """log q for q ~ Dir(alpha), up to a constant; exact for any small alpha, -inf where it is zero."""
  log_q = np.full(len(alpha), -np.inf)
  some = alpha > 0
  # G(a) = G(a + 1)·U^(1/a), whose logarithm does not underflow.
  log_q[some] = np.log(rng.gamma(alpha[some] + 1)) + np.log(rng.random(some.sum())) / alpha[some]
  return log_q


def _one_class_each(labels: np.ndarray, num_clients: int, rng: np.random.Generator) -> Parts:
  """Every client one class, every class as many clients as its size asks for."""
  counts = np.bincount(labels)
  present = rng.permutation(np.flatnonzero(counts))
  by_class = np.concatenate([rng.permutation(np.flatnonzero(labels == k)) for k in present])
  if num_clients < len(present):
    return _cut(by_class, _equal_sizes(len(labels), num_clients))
  clients_of = np.ones(len(present), np.int64)
  for _ in range(num_clients - len(present)):  # the next client goes where the shares are largest
    clients_of[np.argmax(counts[present] / clients_of)] += 1
  parts, start = [], 0
  for k, clients in zip(present, clients_of, strict=True):
    members = by_class[start : start + counts[k]]
    parts.extend(_cut(members, _equal_sizes(len(members), int(clients))))
    start += counts[k]
  return [parts[i] for i in rng.permutation(num_clients)]


def _cut(indices: np.ndarray, sizes: Sequence[int]) -> Parts:
  bounds = np.concatenate([[0], np.cumsum(sizes)])
  return [np.sort(indices[a:b]) for a, b in itertools.pairwise(bounds)]


def _equal_sizes(total: int, parts: int) -> list[int]:
  return [total // parts + (i < total % parts) for i in range(parts)]


def _checked(labels: np.ndarray, num_clients: int, classes: bool = True) -> np.ndarray:
  labels = np.asarray(labels)
  validation.integer("num_clients", num_clients, at_least=1)
  if num_clients > len(labels):
    raise ValueError(
      f"num_clients must be at most the {len(labels)} training examples; found {num_clients}."
    )
  if classes and (labels.dtype.kind not in "iu" or labels.min() < 0):
    raise ValueError(f"Labels must be whole numbers from 0; found {labels.dtype}.")
  return labels.astype(np.int64) if classes else labels
