"""A client's data by reference: the process that trains the client reads the data itself.

A reference takes a few hundred bytes: a function that any process can import, its arguments, and the client.
The in-process runtime resolves it immediately; a cluster sends it instead of the data.
"""

import collections
import dataclasses
import importlib
import threading
from collections.abc import Hashable
from typing import Any

import numpy as np
import tensorflow as tf

from tff_momentum.runtime import client_batches
from tff_momentum.runtime.batch_rule import BatchRule
from tff_momentum.runtime.client_batches import ClientBatches

_MAX_LOADED_SOURCES = 4


@dataclasses.dataclass(frozen=True)
class DataSource:
  """How any process reads the data of all clients; made by `source`.

  Attributes:
    loader: `"package.module:function"`. The function returns an object, such as a task, with a method
      `dataset(client, seed, batch_size)`. It is called once in each process.
    arguments: The function's keyword arguments, as sorted pairs.
  """

  loader: str
  arguments: tuple[tuple[str, Hashable], ...]


def source(loader: str, **arguments: Hashable) -> DataSource:
  """Returns the data source that a function loads.

  Args:
    loader: `"package.module:function"`, importable by every process of the cluster. The function returns an
      object with a method `dataset(client, seed, batch_size)`, which returns `ClientBatches` or a
      `tf.data.Dataset`, the same kind for all clients.
    **arguments: The function's keyword arguments; they must be hashable and small.

  Raises:
    ValueError: `loader` is not of this form.

  >>> from tff_momentum import runtime
  >>> train = runtime.source("mypackage.mydata:load", split="train")
  >>> train.loader
  'mypackage.mydata:load'
  """
  module, _, function = loader.partition(":")
  if not module or not function.isidentifier():
    raise ValueError(f'Expected a loader like "package.module:function", found {loader!r}.')
  return DataSource(loader, tuple(sorted(arguments.items())))


@dataclasses.dataclass(frozen=True)
class DataReference:
  """The batches of one client in one round; TFF computations take it instead of a `tf.data.Dataset`.

  Attributes:
    source: Where the data of all clients come from.
    client: The client's name.
    seed: The seed that shuffles the client's data in this round.
    batch_size: The number of examples in a batch.
    num_examples: The number of the client's examples, if it is known: clients with many examples start first.

  >>> from tff_momentum import runtime
  >>> train = runtime.source("mypackage.mydata:load", split="train")
  >>> reference = runtime.DataReference(train, client="7", seed=(0, 7), batch_size=20)
  """

  source: DataSource
  client: str
  seed: tuple[int, int]
  batch_size: int
  num_examples: int = 0

  def resolve(self) -> ClientBatches | tf.data.Dataset:
    """Reads the data in this process; the first call for a source loads the source."""
    seed = np.array(self.seed, np.int32)
    return _load(self.source).dataset(self.client, seed, self.batch_size)

  def rule(self) -> BatchRule | None:
    """Returns the rule of the batches of all clients of the source.

    None if they are data sets, or if this process has not loaded the source (see `provide`).
    """
    with _lock:
      if self.source not in _loaded:
        return None
      if self.source in _rules:
        return _rules[self.source]
    data = self.resolve()
    rule = data.rule if isinstance(data, ClientBatches) else None
    with _lock:
      _rules[self.source] = rule
    return rule


@dataclasses.dataclass(frozen=True)
class DataLeaf:
  """The data of one client on its way to the process that trains it.

  Attributes:
    data: The data, by value or by reference.
    signature: The signature of the rule by which the client's graph reads `ClientBatches`; None if it reads a
      data set.
  """

  data: ClientBatches | tf.data.Dataset | DataReference
  signature: str | None

  def tensor(self) -> tf.Tensor:
    """Returns the variant tensor that the client's graph takes.

    Raises:
      ValueError: The reference stands for other data than those of the source's first client.
    """
    if self.signature is None:
      return self.dataset()._variant_tensor
    return client_batches.leaves([self.batches()])[0]

  def batches(self) -> ClientBatches:
    """Returns the batches that the client's graph reads by index.

    Raises:
      ValueError: The reference stands for other data than those of the source's first client.
    """
    data = self.data.resolve() if isinstance(self.data, DataReference) else self.data
    found = data.rule.signature if isinstance(data, ClientBatches) else type(data).__name__
    if found != self.signature:
      raise ValueError(
        f"Expected ClientBatches of {self.signature} for all clients of a data source; found {found}: "
        "return the same kind of data for each client."
      )
    return data

  def dataset(self) -> tf.data.Dataset:
    """Returns the data as a data set."""
    data = self.data.resolve() if isinstance(self.data, DataReference) else self.data
    return data.as_dataset() if isinstance(data, ClientBatches) else data


_lock = threading.Lock()
_loaded: collections.OrderedDict[DataSource, Any] = collections.OrderedDict()
_rules: dict[DataSource, BatchRule | None] = {}


def provide(data_source: DataSource, loaded: Any) -> None:
  """Tells this process what a source would load, so that it need not load it again.

  The head of a cluster can have clients read `ClientBatches` by index only if it knows the source.

  Args:
    data_source: The source.
    loaded: What its loader would return.
  """
  with _lock:
    _loaded[data_source] = loaded
    _loaded.move_to_end(data_source)
    while len(_loaded) > _MAX_LOADED_SOURCES:
      _rules.pop(_loaded.popitem(last=False)[0], None)


def _load(data_source: DataSource) -> Any:
  with _lock:
    if data_source in _loaded:
      return _loaded[data_source]
  module, _, function = data_source.loader.partition(":")
  provide(
    data_source, getattr(importlib.import_module(module), function)(**dict(data_source.arguments))
  )
  return _loaded[data_source]
