"""From the examples that a data set stores to a task: reading, preparing, caching and batching.

A `Source` lists the clients and reads their raw examples, either from TFF's SQLite files (`tff_source`) or
from a generator (`tasks.data.synthetic`). The task's `prepare` function turns the raw examples of both into
arrays.
"""

import collections
import dataclasses
import functools
import pathlib
import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tasks.data import partitions, sqlite
from tasks.data.batches import NumberedIds, ordered_batches
from tasks.data.folders import DataError
from tasks.task import Defaults, Task
from tff_momentum import validation
from tff_momentum.models.model import Model
from tff_momentum.runtime import ClientBatches, Examples
from tff_momentum.runtime.batch_rule import Arrays, Preprocess

Raw = Mapping[str, np.ndarray]  # one column per feature, as the data set stores it
CACHE_BYTES = 512 * 2**20  # budget of the prepared examples kept in memory
# Size of a test batch; the activations of a deep model take about a hundred times as much.
EVALUATION_BYTES = 16 * 2**20
DATA = ("real", "synthetic")


@dataclasses.dataclass(frozen=True)
class Source:
  """Clients and their raw examples.

  Attributes:
    data: "real" or "synthetic".
    clients: the ids of the training clients.
    total_examples: the number of examples of all training clients together.
    read: client id -> the examples of a training client.
    read_test: () -> the test examples.
  """

  data: str
  clients: Sequence[str]
  total_examples: int
  read: Callable[[str], Raw]
  read_test: Callable[[], Raw]


def tff_source(
  path: pathlib.Path,
  load: Callable[[], Sequence[Any]],
  *,
  splits: tuple[str, str],
  num_clients: int | None = None,
  max_examples: int | None = None,
  max_test_examples: int | None = None,
) -> Source:
  """Returns the clients of one of TFF's SQLite files, which TFF's own loader reads.

  Args:
    path: the file.
    load: calls `tff.simulation.datasets.….load_data`. The first `ClientData` it returns is for training, the
      last one for testing. It is called when the first client is read.
    splits: the names of the training and the test split in the file.
    num_clients: keep only this many clients, those with the most examples.
    max_examples: keep only this many examples of each client, the first ones.
    max_test_examples: keep only this many test examples, from a fixed sample of clients.

  Raises:
    ValueError: an argument is invalid, or (`DataError`) the file is damaged.
  """
  train, test = (sqlite.index(path, split) for split in splits)
  if num_clients is not None:
    validation.integer("num_clients", num_clients, at_least=1)
    if num_clients > len(train.names):
      raise ValueError(
        f"num_clients must be at most the {len(train.names)} clients of {path}; found {num_clients}."
      )
    train = train.largest(num_clients)
  if max_examples is not None:
    validation.integer("max_examples_per_client", max_examples, at_least=1)
  loaded = functools.cache(functools.partial(_load, path, load))
  read_train = _lazy(lambda: _reader(path, loaded()[0], train, max_examples))
  test_clients, each = _test_clients(test, max_test_examples)
  read_one_test = _lazy(lambda: _reader(path, loaded()[-1], test, each))

  def read_test() -> Raw:
    rows = [read_one_test(test.ids[int(i)]) for i in test_clients]
    return {key: column[:max_test_examples] for key, column in _joined(rows).items()}

  sizes = train.sizes if max_examples is None else np.minimum(train.sizes, max_examples)
  source = Source("real", train.ids, int(sizes.sum()), read_train, read_test)
  source.read(source.clients[0])  # so that a file of another data set fails here, not in round 700
  return source


def _load(path: pathlib.Path, load: Callable[[], Sequence[Any]]) -> Sequence[Any]:
  try:
    return load()
  except (StopIteration, RuntimeError, tf.errors.OpError) as error:
    raise DataError(
      f"{path} lacks a split or a client that TFF's loader needs. Delete the file and fetch it again."
    ) from error


def _lazy(make: Callable[[], Callable[[str], Raw]]) -> Callable[[str], Raw]:
  made = functools.cache(make)
  return lambda client: made()(client)


def _test_clients(test: sqlite.ClientIndex, limit: int | None) -> tuple[np.ndarray, int | None]:
  """Returns which clients to read test examples from, and how many of each (None: all)."""
  if limit is None or test.sizes.sum() <= limit:
    return np.arange(len(test.names)), None
  each = max(20, -(-2 * limit // len(test.names)))
  order = np.random.default_rng(0).permutation(len(test.names))
  enough = np.searchsorted(np.cumsum(np.minimum(test.sizes[order], each)), limit) + 1
  return order[:enough], each


def _reader(
  path: pathlib.Path, client_data: Any, index: sqlite.ClientIndex, limit: int | None
) -> Callable[[str], Raw]:
  """Returns a function that reads a client with TFF's code, traced once for all clients."""
  open_client = client_data.serializable_dataset_fn

  @tf.function(input_signature=[tf.TensorSpec([], tf.string), tf.TensorSpec([], tf.int64)])
  def read(client, count):
    return open_client(client).take(count).batch(count).get_single_element()

  stamp = sqlite.stamp_of(path)

  def read_client(client: str) -> Raw:
    if not path.exists() or sqlite.stamp_of(path) != stamp:
      raise DataError(
        f"{path} was changed or replaced during training. To resume from the last checkpoint, put the same "
        "file back and run the same command again."
      )
    count = index.size(client) if limit is None else min(index.size(client), limit)
    try:
      columns = read(client, count)
    except tf.errors.OpError as error:
      reason = " ".join(error.message.split())[:120]
      raise DataError(
        f"Client {client} of {path} cannot be read as this data set ({reason}). Delete the file and fetch it "
        "again."
      ) from error
    raw = {key: column.numpy() for key, column in columns.items()}
    found = _length(raw)
    if found != count:
      raise DataError(
        f"Client {client} of {path}: expected {count} examples; found {found}. Delete the file and fetch it "
        "again."
      )
    return raw

  return read_client


def redistributed_iid(source: Source, num_clients: int, seed: int) -> Source:
  """Pools the examples of all clients and splits them at random over `num_clients` clients of equal size."""
  pool = _joined([source.read(client) for client in source.clients])
  count = _length(pool)
  parts = partitions.iid(np.arange(count), num_clients, seed)

  def read(client: str) -> Raw:
    return {key: column[parts[int(client)]] for key, column in pool.items()}

  return Source(source.data, NumberedIds(num_clients), count, read, source.read_test)


def last_fifth_for_testing(source: Source, more: Callable[[str], Raw] | None) -> Source:
  """Moves the last fifth of each client's examples, and at least one, to the test set.

  Clients with a single example are left out.

  Args:
    source: the clients and their examples.
    more: client id -> further examples of the client, appended to those of `source`.
  """
  train: dict[str, Raw] = {}
  test: list[Raw] = []
  for client in source.clients:
    own = source.read(client)
    rows = own if more is None else _joined([own, more(client)])
    if _length(rows) < 2:
      continue
    cut = _length(rows) - max(1, _length(rows) // 5)
    train[client] = {key: column[:cut] for key, column in rows.items()}
    test.append({key: column[cut:] for key, column in rows.items()})
  total = sum(map(_length, train.values()))
  return Source(source.data, list(train), total, train.__getitem__, lambda: _joined(test))


def evaluation_batch(model: Model, wanted: int) -> int:
  """Returns the size of a test batch: `wanted`, or less if the batch would exceed EVALUATION_BYTES."""
  specs = tf.nest.flatten(model.batch_spec)
  example = sum(np.prod(spec.shape[1:], dtype=int) * spec.dtype.size for spec in specs)
  return min(wanted, max(1, EVALUATION_BYTES // int(example)))


def _joined(rows: Sequence[Raw]) -> Raw:
  return {key: np.concatenate([row[key] for row in rows]) for key in rows[0]}


def _length(raw: Raw) -> int:
  return len(next(iter(raw.values())))


class _ClientCache:
  """The prepared examples of the clients used last, within a budget of bytes."""

  def __init__(self, make: Callable[[str], Examples], budget: int):
    self._make, self._budget, self._used = make, budget, 0
    self._kept: collections.OrderedDict[str, Examples] = collections.OrderedDict()
    self._lock = threading.Lock()

  def __call__(self, client: str) -> Examples:
    with self._lock:
      if client in self._kept:
        self._kept.move_to_end(client)
        return self._kept[client]
    made = self._make(client)
    with self._lock:
      if client not in self._kept:
        self._kept[client] = made
        self._used += _bytes(made)
      while self._used > self._budget and len(self._kept) > 1:
        self._used -= _bytes(self._kept.popitem(last=False)[1])
    return made


def _bytes(examples: Examples) -> int:
  return sum(t.shape.num_elements() * t.dtype.size for t in examples.tensors)


def task_from_source(
  name: str,
  source: Source,
  model: Model,
  prepare: Callable[[Raw], Arrays],
  defaults: Defaults,
  details: Mapping[str, Any],
  *,
  augment: Preprocess | None = None,
  finish: Callable[[Any], Any] | None = None,
) -> Task:
  """Builds a task from a source.

  Args:
    name: the name that `--task` takes.
    source: the clients and their raw examples.
    model: the model.
    prepare: raw examples -> arrays (x, y). The arrays are cached, so they should use few bytes.
    defaults: the defaults of the run's flags.
    details: what `config.json` records about the task.
    augment: (training batch of these arrays, seed) -> the model's batch; `finish` if not given.
    finish: test batch -> the model's batch. With neither, the arrays are the model's batch.

  Returns:
    The task.
  """
  if augment is None and finish is not None:
    augment = lambda batch, seed: finish(batch)  # noqa: E731
  cached = _ClientCache(lambda client: Examples(prepare(source.read(client)), augment), CACHE_BYTES)
  test = functools.cache(lambda: prepare(source.read_test()))
  return Task(
    name=name,
    model=model,
    clients=source.clients,
    dataset=lambda client, seed, size: ClientBatches(cached(client), batch_size=size, seed=seed),
    evaluation=lambda batch_size: ordered_batches(
      test(), evaluation_batch(model, batch_size), finish
    ),
    total_examples=source.total_examples,
    defaults=defaults,
    data=source.data,
    details={"data": source.data, "num_clients": len(source.clients), **details},
    client_evaluation=lambda client, batch_size: ordered_batches(
      cached(client).arrays, evaluation_batch(model, batch_size), finish
    ),
  )
