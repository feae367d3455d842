"""A client's data by reference: the process that trains the client reads the data itself.

A reference is a few hundred bytes: a function that any process can import, its arguments, and the
client. In process it is resolved at once; on a cluster it travels in the place of the data.
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
  """How any process gets at the data of all clients.

  Attributes:
    loader: `"package.module:function"`; the function returns an object, such as a task, with a
      method `dataset(client, seed, batch_size)`. It is called once in each process.
    arguments: the function's keyword arguments, as sorted pairs; see `source`.
  """

  loader: str
  arguments: tuple[tuple[str, Hashable], ...]


def source(loader: str, **arguments: Hashable) -> DataSource:
  """Returns the source that calls `loader`, as `"package.module:function"`, with these arguments."""
  module, _, function = loader.partition(":")
  if not module or not function.isidentifier():
    raise ValueError(f'Expected a loader like "package.module:function", found {loader!r}.')
  return DataSource(loader, tuple(sorted(arguments.items())))


@dataclasses.dataclass(frozen=True)
class DataReference:
  """The batches of one client in one round; stands wherever its `tf.data.Dataset` could."""

  source: DataSource
  client: str
  seed: tuple[int, int]
  batch_size: int

  def resolve(self) -> tf.data.Dataset:
    """Reads the data in this process."""
    seed = np.array(self.seed, np.int32)
    return _load(self.source).dataset(self.client, seed, self.batch_size)


@functools.lru_cache(maxsize=_MAX_LOADED_SOURCES)
def _load(data_source: DataSource) -> Any:
  module, _, function = data_source.loader.partition(":")
  return getattr(importlib.import_module(module), function)(**dict(data_source.arguments))
