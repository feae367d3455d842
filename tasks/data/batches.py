"""Clients' examples as batches: from arrays in memory to a `tf.data.Dataset`, quickly.

A round opens a data set for each client of its cohort, so making one must be cheap: the pipeline is traced
once, as a function of (arrays, seed, batch size), and tf.data's graph rewriting, which costs more than it
saves on so little data, is off.
"""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any, overload

import numpy as np
import tensorflow as tf

from tasks.task import Defaults, Task
from tff_momentum.models.model import Model

Arrays = Any  # a structure of arrays that share their first dimension, an example each
Preprocess = Callable[[Any, tf.Tensor], Any]  # (batch, seed int64[2]) -> batch


class NumberedIds(Sequence[str]):
  """The client ids "0", "1", … without a list of them: a million clients cost nothing."""

  def __init__(self, count: int):
    self._count = count

  def __len__(self) -> int:
    return self._count

  @overload
  def __getitem__(self, index: int) -> str: ...
  @overload
  def __getitem__(self, index: slice) -> Sequence[str]: ...
  def __getitem__(self, index: int | slice) -> str | Sequence[str]:
    """The id at a place."""
    chosen = range(self._count)[index]
    return [str(i) for i in chosen] if isinstance(chosen, range) else str(chosen)

  def __contains__(self, client: object) -> bool:
    text = str(client)
    return text.isdecimal() and int(text) < self._count and str(int(text)) == text


class Batches:
  """Makes shuffled batches of a client's arrays.

  The order is a function of the seed and of how often the data set was iterated before, so each epoch
  has an order of its own and a run can be repeated. `preprocess` sees whole batches, each with a seed of
  its own.
  """

  def __init__(self, example_spec: Any, preprocess: Preprocess | None = None):
    """Args: the specs of one example, its first dimension left out; what to do with a batch."""
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
    """The batches of the examples from `begin` to `end`."""
    seed = np.asarray(seed, np.int64)
    return self._pipeline(arrays, np.int64(begin), np.int64(end), seed, np.int64(batch_size))


def ordered_batches(
  arrays: Arrays, batch_size: int, preprocess: Callable[[Any], Any] | None = None
) -> tf.data.Dataset:
  """Test data in batches, in the order given."""
  data = tf.data.Dataset.from_tensor_slices(arrays).batch(batch_size)
  if preprocess is not None:
    data = data.map(lambda *parts: preprocess(parts if len(parts) > 1 else parts[0]))
  return data.prefetch(2)


@dataclasses.dataclass(frozen=True)
class ArrayClients:
  """Clients numbered from 0 over arrays in memory, grouped so that a client is one slice of them.

  Attributes:
    arrays: all clients' examples, one client after the other.
    bounds: client i holds the examples from bounds[i] to bounds[i + 1].
    batches: how a client's slice becomes batches.
  """

  arrays: Arrays
  bounds: np.ndarray
  batches: Batches

  @classmethod
  def of(
    cls, arrays: Arrays, parts: Sequence[np.ndarray], preprocess: Preprocess | None = None
  ) -> "ArrayClients":
    """Clients that hold the examples with the given numbers."""
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
    """What all clients hold together."""
    return int(self.bounds[-1])

  def dataset(self, client: str, seed: np.ndarray, batch_size: int) -> tf.data.Dataset:
    """A client's shuffled batches."""
    begin, end = self.bounds[int(client)], self.bounds[int(client) + 1]
    return self.batches(self.arrays, seed, batch_size, begin, end)

  def task(
    self,
    name: str,
    model: Model,
    evaluation: Callable[[int], tf.data.Dataset],
    defaults: Defaults,
    details: Mapping[str, Any],
    data: str,
  ) -> Task:
    """The task of training on these clients; the arguments are those of `Task`."""
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
    )


def with_batch_dimension(example_spec: Any) -> Any:
  """The specs of a batch of any size, from those of an example."""
  return tf.nest.map_structure(lambda s: tf.TensorSpec([None, *s.shape], s.dtype), example_spec)


def _plain_options() -> tf.data.Options:
  options = tf.data.Options()
  options.experimental_optimization.apply_default_optimizations = False
  options.autotune.enabled = False
  return options


def _shuffle(data: tf.data.Dataset, buffer: tf.Tensor, seed: tf.Tensor) -> tf.data.Dataset:
  """`data.shuffle` with all 64 bits of the seed and none of TensorFlow's global seed."""
  variant = tf.raw_ops.ShuffleDatasetV3(
    input_dataset=tf.data.experimental.to_variant(data),
    buffer_size=buffer,
    **_seed_arguments(seed),
    reshuffle_each_iteration=True,
    **_output_arguments(data.element_spec),
  )
  return tf.data.experimental.from_variant(variant, data.element_spec)


def _seeds(seed: tf.Tensor) -> tf.data.Dataset:
  """Endless seeds for the batches, others in each epoch."""
  spec = tf.TensorSpec([], tf.int64)
  variant = tf.raw_ops.RandomDatasetV2(
    **_seed_arguments(seed + 1), rerandomize_each_iteration=True, **_output_arguments(spec)
  )
  return tf.data.experimental.from_variant(variant, spec).batch(2, drop_remainder=True)


def _seed_arguments(seed: tf.Tensor) -> dict[str, tf.Tensor]:
  # A pair of zeros would mean "seed me by the clock"; the second word is moved above all int32.
  return {
    "seed": seed[0],
    "seed2": seed[1] + 2**32,
    "seed_generator": tf.raw_ops.DummySeedGenerator(),
  }


def _output_arguments(spec: Any) -> dict[str, Any]:
  flat = tf.nest.flatten(spec)
  return {"output_types": [s.dtype for s in flat], "output_shapes": [s.shape for s in flat]}
