"""Helpers that the splits share: equal sizes, cutting a list of examples, checking the arguments."""

import itertools
from collections.abc import Sequence

import numpy as np

from tff_momentum import validation

Parts = list[np.ndarray]  # for each client, the numbers of its examples in ascending order


def checked_labels(labels: np.ndarray, num_clients: int) -> np.ndarray:
  """Returns the labels as int64; raises `ValueError` unless they are classes that the clients can share."""
  labels = np.asarray(labels)
  check_num_clients(num_clients, len(labels))
  if labels.dtype.kind not in "iu" or labels.min() < 0:
    raise ValueError(f"Labels must be whole numbers from 0; found {labels.dtype}.")
  return labels.astype(np.int64)


def check_num_clients(num_clients: int, examples: int) -> None:
  """Raises `ValueError` unless every client can have an example."""
  validation.integer("num_clients", num_clients, at_least=1)
  if num_clients > examples:
    raise ValueError(
      f"num_clients must be at most the {examples} training examples; found {num_clients}."
    )


def equal_sizes(total: int, parts: int) -> list[int]:
  """Returns sizes that sum to `total` and differ by at most one."""
  return [total // parts + (i < total % parts) for i in range(parts)]


def cut(indices: np.ndarray, sizes: Sequence[int]) -> Parts:
  """Cuts a list of examples into consecutive parts of the given sizes, each sorted."""
  bounds = np.concatenate([[0], np.cumsum(sizes)])
  return [np.sort(indices[a:b]) for a, b in itertools.pairwise(bounds)]


def one_class_each(labels: np.ndarray, num_parts: int, rng: np.random.Generator) -> Parts:
  """Gives each part examples of one class; the number of parts per class follows the class's size.

  With fewer parts than classes, a part gets as few classes as possible.
  """
  counts = np.bincount(labels)
  present = rng.permutation(np.flatnonzero(counts))
  by_class = np.concatenate([rng.permutation(np.flatnonzero(labels == k)) for k in present])
  if num_parts < len(present):
    return cut(by_class, equal_sizes(len(labels), num_parts))
  parts_of = np.ones(len(present), np.int64)
  for _ in range(
    num_parts - len(present)
  ):  # the next part goes to the class with the largest parts
    parts_of[np.argmax(counts[present] / parts_of)] += 1
  parts, start = [], 0
  for k, number in zip(present, parts_of, strict=True):
    members = by_class[start : start + counts[k]]
    parts.extend(cut(members, equal_sizes(len(members), int(number))))
    start += counts[k]
  return [parts[i] for i in rng.permutation(num_parts)]
