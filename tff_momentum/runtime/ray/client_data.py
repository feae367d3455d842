"""Clients' data by value: the head puts examples into Ray's object store once, and actors keep them.

Rounds then send only which batches a client reads: the rule's numbers, and the place of its examples. On each
node, all actors read the same memory.
"""

import dataclasses
import itertools
import weakref
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
import ray
import tensorflow as tf

from tff_momentum.runtime import arrays, client_batches
from tff_momentum.runtime.client_batches import ClientBatches
from tff_momentum.runtime.ray import wire

# The examples of several small clients share an object, because each object takes about a millisecond.
_OBJECT_BYTES = 2**23


@dataclasses.dataclass(frozen=True)
class StoredBatches:
  """The batches of some clients: their numbers, and for each the object and the place of its examples."""

  numbers: np.ndarray
  places: list[tuple[int, int]]


@dataclasses.dataclass(frozen=True)
class News:
  """What an actor has to learn before it runs a chunk.

  Attributes:
    objects: The numbers of objects that it does not have yet; their references travel beside this record.
    forgotten: The numbers of objects that no client needs any more.
  """

  objects: list[int]
  forgotten: list[int]


class SentExamples:
  """The head's side: which examples are in the object store, and which actors have them."""

  def __init__(self) -> None:
    self._places: dict[tuple[int, int, int], tuple[int, int]] = {}
    self._objects: dict[int, ray.ObjectRef] = {}
    self._clients: dict[int, int] = {}  # how many clients' examples an object holds
    self._held: dict[Any, set[int]] = {}
    self._counter = itertools.count()
    self._put_bytes = 0

  def store(self, clients: Sequence[ClientBatches]) -> StoredBatches:
    """Puts examples into the object store that are not there yet; returns the clients' batches."""
    keys = [(id(each.examples), each.begin, each.num_examples) for each in clients]
    new = {key: c for key, c in zip(keys, clients, strict=True) if key not in self._places}
    for group in _groups(new.values()):
      self._put(group)
    numbers = np.array([each.numbers(begin=0) for each in clients], np.int64)
    return StoredBatches(numbers, [self._places[key] for key in keys])

  def news(self, actor: Any, batches: Iterable[StoredBatches]) -> tuple[News, list[ray.ObjectRef]]:
    """Returns what an actor has to learn, and notes that it knows it."""
    needed = {number for each in batches for number, _ in each.places}
    held = self._held.setdefault(actor, set())
    news = News(sorted(needed - held), sorted(held - self._objects.keys()))
    held |= needed
    held -= set(news.forgotten)
    return news, [self._objects[number] for number in news.objects]

  def take_put_bytes(self) -> int:
    """Returns the bytes that were put into the object store since the last call."""
    taken, self._put_bytes = self._put_bytes, 0
    return taken

  def lose(self, actor: Any) -> None:
    """Forgets an actor that was lost."""
    self._held.pop(actor, None)

  def _put(self, group: Sequence[tuple[ClientBatches, list[np.ndarray]]]) -> None:
    number = next(self._counter)
    message = wire.pack([own for _, own in group])
    self._put_bytes += message.size
    self._objects[number] = ray.put(message)
    self._clients[number] = len(group)
    forget = weakref.WeakMethod(self._forget)
    for index, (each, _) in enumerate(group):
      key = (id(each.examples), each.begin, each.num_examples)
      self._places[key] = (number, index)
      weakref.finalize(each.examples, _call, forget, key).atexit = False

  def _forget(self, key: tuple[int, int, int]) -> None:
    number, _ = self._places.pop(key)
    self._clients[number] -= 1
    if not self._clients[number]:
      del self._clients[number], self._objects[number]


class KeptExamples:
  """An actor's side: the examples that it has, as tensors that share the memory of the object store."""

  def __init__(self) -> None:
    self._objects: dict[int, list[list[tf.Tensor]]] = {}

  def learn(self, news: News, references: Sequence[ray.ObjectRef]) -> None:
    """Fetches the objects of `news`."""
    for number in news.forgotten:
      self._objects.pop(number, None)
    for number, message in zip(news.objects, ray.get(list(references)), strict=True):
      self._objects[number] = [
        [arrays.shared_tensor(array) for array in own] for own in wire.unpack(message)
      ]

  def leaves(self, batches: StoredBatches) -> list[tf.Tensor]:
    """Returns the leaf of each client."""
    examples = [self._objects[number][index] for number, index in batches.places]
    return client_batches.leaves_of(batches.numbers, examples)


def _groups(
  clients: Iterable[ClientBatches],
) -> Iterator[list[tuple[ClientBatches, list[np.ndarray]]]]:
  """Yields groups of clients with their examples; a group has few bytes, or only one client."""
  group: list[tuple[ClientBatches, list[np.ndarray]]] = []
  size = 0
  for each in clients:
    own = each.own_arrays()
    more = sum(array.nbytes for array in own)
    if group and size + more > _OBJECT_BYTES:
      yield group
      group, size = [], 0
    group.append((each, own))
    size += more
  if group:
    yield group


def _call(method: weakref.WeakMethod, key: tuple[int, int, int]) -> None:
  bound = method()
  if bound is not None:
    bound(key)
