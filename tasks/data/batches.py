"""From arrays in memory to a `tf.data.Dataset` of shuffled batches.

A round opens a data set for each client of its cohort, so opening one must be cheap. The pipeline is traced
once, as a function of (arrays, seed, batch size), and tf.data's graph rewriting is off, because it costs more
than it saves on small data.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np
import tensorflow as tf

from tasks.task import Defaults, Task
from tff_momentum.models.model import Model

Arrays = Any  # a structure of arrays whose first dimension counts the examples
Preprocess = Callable[[Any, tf.Tensor], Any]  # (batch, seed int64[2]) -> batch


class NumberedIds(Sequence[str]):
  """The client ids "0", "1", …, computed on demand, so that a million clients take no memory."""

  def __init__(self, count: int):
    self._count = count

  def __len__(self) -> int:
    return self._count

  @overload
  def __getitem__(self, index: int) -> str: ...
  @overload
  def __getitem__(self, index: slice) -> Sequence[str]: ...
  def __getitem__(self, index: int | slice) -> str | Sequence[str]:
    """Returns the id or ids at an index or slice."""
    chosen = range(self._count)[index]
    return [str(i) for i in chosen] if isinstance(chosen, range) else str(chosen)

  def __contains__(self, client: object) -> bool:
    text = str(client)
    return text.isdecimal() and int(text) < self._count and str(int(text)) == text


class Batches:
  """Makes shuffled batches from a client's arrays.

  The order depends on the seed and on the number of earlier iterations over the data set, so each epoch has
  its own order and a run can be reproduced.

  >>> batches = Batches(tf.TensorSpec([], tf.int64))
  >>> data = batches(np.arange(4), seed=np.array([1, 2]), batch_size=3)
  >>> [len(batch) for batch in data]
  [3, 1]
  """

  def __init__(self, example_spec: Any, preprocess: Preprocess | None = None):
    """Traces the pipeline.

    Args:
      example_spec: the specs of one example, without the batch dimension.
      preprocess: (batch, seed) -> batch; each batch gets its own seed.
    """
    batch_spec, number = with_batch_dimension(example_spec), tf.TensorSpec([], tf.int64)

    def pipeline(arrays, begin, end, seed, batch_size):
      arrays = tf.nest.map_structure(lambda a: a[begin:end], arrays)
      count = tf.shape(tf.nest.flatten(arrays)[0], out_type=tf.int64)[0]
      data = tf.data.Dataset.from_tensor_slices(arrays)
      data = _shuffle(data, tf.maximum(count, 1), seed).batch(batch_size)
      if preprocess is not None:
        data = tf.data.Dataset.zip((data, _seeds(seed))).map(preprocess)
      return data.with_options(_plain_options())

    self._pipeline = tf.function(
      pipeline,
      autograph=False,
      input_signature=[batch_spec, number, number, tf.TensorSpec([2], tf.int64), number],
    )

  def __call__(
    self,
    arrays: Arrays,
    seed: np.ndarray,
    batch_size: int,
    begin: int = 0,
    end: int = np.iinfo(np.int64).max,
  ) -> tf.data.Dataset:
    """Returns the batches of the examples from `begin` to `end`."""
    seed = np.asarray(seed, np.int64)
    return self._pipeline(arrays, np.int64(begin), np.int64(end), seed, np.int64(batch_size))


def ordered_batches(
  arrays: Arrays, batch_size: int, preprocess: Callable[[Any], Any] | None = None
) -> tf.data.Dataset:
  """Returns test data in batches, in the order given.

  Args:
    arrays: the examples.
    batch_size: number of examples per batch.
    preprocess: batch -> batch.
  """
  data = tf.data.Dataset.from_tensor_slices(arrays).batch(batch_size)
  if preprocess is not None:
    data = data.map(lambda *parts: preprocess(parts if len(parts) > 1 else parts[0]))
  return data.prefetch(2)


@dataclasses.dataclass(frozen=True)
class ArrayClients:
  """Clients "0", "1", … over arrays in memory, grouped so that each client is one slice.

  Attributes:
    arrays: the examples of all clients, one client after the other.
    bounds: client i holds the examples from bounds[i] to bounds[i + 1].
    batches: turns a client's slice into batches.

  >>> clients = ArrayClients.of(np.arange(10), [np.array([0, 1, 2]), np.array([7, 8])])
  >>> list(clients.ids), clients.total_examples
  (['0', '1'], 5)
  >>> [sorted(batch.numpy()) for batch in clients.dataset("1", np.array([0, 0]), batch_size=8)]
  [[7, 8]]
  """

  arrays: Arrays
  bounds: np.ndarray
  batches: Batches

  @classmethod
  def of(
    cls, arrays: Arrays, parts: Sequence[np.ndarray], preprocess: Preprocess | None = None
  ) -> "ArrayClients":
    """Groups arrays by client.

    Args:
      arrays: the examples of all clients, in any order.
      parts: for each client, the numbers of its examples.
      preprocess: (training batch, seed) -> batch.
    """
    order = np.concatenate(parts).astype(np.int64) if len(parts) else np.zeros([0], np.int64)
    grouped = tf.nest.map_structure(lambda a: tf.constant(np.asarray(a)[order]), arrays)
    spec = tf.nest.map_structure(lambda a: tf.TensorSpec(a.shape[1:], a.dtype), grouped)
    bounds = np.concatenate([[0], np.cumsum([len(part) for part in parts])])
    return cls(grouped, bounds, Batches(spec, preprocess))

  @property
  def ids(self) -> NumberedIds:
    """The clients' ids."""
    return NumberedIds(len(self.bounds) - 1)

  @property
  def total_examples(self) -> int:
    """The number of examples of all clients together."""
    return int(self.bounds[-1])

  def dataset(self, client: str, seed: np.ndarray, batch_size: int) -> tf.data.Dataset:
    """Returns a client's shuffled batches; see `Task.dataset`."""
    begin, end = self.bounds[int(client)], self.bounds[int(client) + 1]
    return self.batches(self.arrays, seed, batch_size, begin, end)

  def ordered(
    self, client: str, batch_size: int, preprocess: Callable[[Any], Any] | None = None
  ) -> tf.data.Dataset:
    """Returns a client's batches in a fixed order, prepared like test data by `preprocess`."""
    begin, end = self.bounds[int(client)], self.bounds[int(client) + 1]
    arrays = tf.nest.map_structure(lambda a: a[begin:end], self.arrays)
    return ordered_batches(arrays, batch_size, preprocess)

  def task(
    self,
    name: str,
    model: Model,
    evaluation: Callable[[int], tf.data.Dataset],
    defaults: Defaults,
    details: Mapping[str, Any],
    data: str,
    client_evaluation: Callable[[str, int], tf.data.Dataset] | None = None,
  ) -> Task:
    """Returns the task of training on these clients; the arguments are those of `Task`."""
    return Task(
      name=name,
      model=model,
      clients=self.ids,
      dataset=self.dataset,
      evaluation=evaluation,
      total_examples=self.total_examples,
      defaults=defaults,
      data=data,
      details=details,
      client_evaluation=client_evaluation,
    )


def with_batch_dimension(example_spec: Any) -> Any:
  """Returns the specs of a batch of any size, given those of one example."""
  return tf.nest.map_structure(lambda s: tf.TensorSpec([None, *s.shape], s.dtype), example_spec)


def _plain_options() -> tf.data.Options:
  options = tf.data.Options()
  options.experimental_optimization.apply_default_optimizations = False
  options.autotune.enabled = False
  return options


def _shuffle(data: tf.data.Dataset, buffer: tf.Tensor, seed: tf.Tensor) -> tf.data.Dataset:
  """Shuffles like `data.shuffle`, but with all 64 bits of the seed and without TensorFlow's global seed."""
  variant = tf.raw_ops.ShuffleDatasetV3(
    input_dataset=tf.data.experimental.to_variant(data),
    buffer_size=buffer,
    **_seed_arguments(seed),
    reshuffle_each_iteration=True,
    **_output_arguments(data.element_spec),
  )
  return tf.data.experimental.from_variant(variant, data.element_spec)


def _seeds(seed: tf.Tensor) -> tf.data.Dataset:
  """Returns an endless data set of seeds, one per batch, different in each epoch."""
  spec = tf.TensorSpec([], tf.int64)
  variant = tf.raw_ops.RandomDatasetV2(
    **_seed_arguments(seed + 1), rerandomize_each_iteration=True, **_output_arguments(spec)
  )
  return tf.data.experimental.from_variant(variant, spec).batch(2, drop_remainder=True)


def _seed_arguments(seed: tf.Tensor) -> dict[str, tf.Tensor]:
  # A pair of zeros would mean "seed from the clock", so the second number is moved out of int32's range.
  return {
    "seed": seed[0],
    "seed2": seed[1] + 2**32,
    "seed_generator": tf.raw_ops.DummySeedGenerator(),
  }


def _output_arguments(spec: Any) -> dict[str, Any]:
  flat = tf.nest.flatten(spec)
  return {"output_types": [s.dtype for s in flat], "output_shapes": [s.shape for s in flat]}
