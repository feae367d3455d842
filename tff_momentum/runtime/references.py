"""A client's data by reference: the process that trains the client reads the data itself.

A reference takes a few hundred bytes: a function that any process can import, its arguments, and the client.
The in-process runtime resolves it immediately; a cluster sends it instead of the data.
"""

import dataclasses
import functools
import importlib
from collections.abc import Hashable
from typing import Any

import numpy as np
import tensorflow as tf

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
      object with a method `dataset(client, seed, batch_size)`, which returns a `tf.data.Dataset`.
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

  >>> from tff_momentum import runtime
  >>> train = runtime.source("mypackage.mydata:load", split="train")
  >>> reference = runtime.DataReference(train, client="7", seed=(0, 7), batch_size=20)
  """

  source: DataSource
  client: str
  seed: tuple[int, int]
  batch_size: int

  def resolve(self) -> tf.data.Dataset:
    """Reads the data in this process; the first call for a source loads the source."""
    seed = np.array(self.seed, np.int32)
    return _load(self.source).dataset(self.client, seed, self.batch_size)


@functools.lru_cache(maxsize=_MAX_LOADED_SOURCES)
def _load(data_source: DataSource) -> Any:
  module, _, function = data_source.loader.partition(":")
  return getattr(importlib.import_module(module), function)(**dict(data_source.arguments))
