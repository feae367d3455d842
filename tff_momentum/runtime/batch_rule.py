"""How a client's batches follow from its arrays: the order of the examples, and what is done to a batch.

In epoch e, the examples come in the order f(key, d_e), and the preprocessing of batch k draws its random
numbers from g(key, d_e, k). The key is the client's seed; d_e is the same number for all clients. It is the
number that a `RandomDataset` with a constant seed draws in its e-th iteration, because a `tf.data` pipeline
can draw this number, but cannot count its own iterations. So a loop that reads by index and a pipeline give
the same batches.

All functions are made of TensorFlow operations that have CPU and GPU kernels.
"""

import functools
import itertools
from collections.abc import Callable, Hashable, Mapping, Sequence
from typing import Any

import tensorflow as tf

# A structure of arrays whose first dimension counts the examples.
Arrays = Any
# (batch, seed int64[2]) -> batch
Preprocess = Callable[[Any, tf.Tensor], Any]

CPU = "/device:CPU:0"
_PHILOX = 1
_SEED, _SEED2 = (
  20_231,
  2**32 + 7,
)  # the constant seed of d_e; a pair of zeros would mean "by the clock"
_PREPROCESSING = (
  2**32
)  # keeps the random numbers of the preprocessing apart from those of the order
_numbers = itertools.count()


class BatchRule:
  """What the batches of all clients of a task have in common; made by `rule_of`.

  Graphs are traced once per rule, so rules are compared by identity.

  Attributes:
    batch_spec: The specs of a batch of the arrays, before preprocessing.
    preprocess: What is done to each batch; None for nothing.
    shuffled: Whether the examples of an epoch come in a random order.
    name: A name for graphs, different for each rule.
  """

  def __init__(self, batch_spec: Any, preprocess: Preprocess | None, shuffled: bool):
    self.batch_spec = batch_spec
    self.preprocess = preprocess
    self.shuffled = shuffled
    self.name = f"rule_{next(_numbers)}"
    self.specs: list[tf.TensorSpec] = tf.nest.flatten(batch_spec)

  @functools.cached_property
  def element_spec(self) -> Any:
    """The specs of a batch after preprocessing."""
    if self.preprocess is None:
      return self.batch_spec
    return tf.nest.map_structure(
      lambda tensor: tf.TensorSpec(tensor.shape, tensor.dtype),
      self._traced_preprocess.structured_outputs,
    )

  @property
  def can_change_size(self) -> bool:
    """Whether batches of another size hold the same examples.

    They do not if the size is part of the batches' type, or if the preprocessing draws random numbers.
    """
    if self.specs[0].shape[0] is not None:
      return False
    return self.preprocess is None or not self._traced_preprocess.inputs[-1].consumers()

  @functools.cached_property
  def _traced_preprocess(self) -> Any:
    return tf.function(self.preprocess, autograph=False).get_concrete_function(
      self.batch_spec, tf.TensorSpec([2], tf.int64)
    )

  @property
  def signature(self) -> str:
    """The rule without its function, as a text that another process can compare."""
    return f"{self.batch_spec}, {'shuffled' if self.shuffled else 'in order'}"

  def order(self, key: tf.Tensor, draw: tf.Tensor, examples: tf.Tensor) -> tf.Tensor:
    """Returns the order of the examples in an epoch, int32[examples].

    Args:
      key: The client's key, uint64[1].
      draw: d_e of the epoch, uint64[1].
      examples: The number of examples, an int32 scalar.
    """
    counter = tf.concat([tf.zeros([1], tf.uint64), draw], 0)
    ranks = _random(examples[None], key, counter, tf.int32)
    return tf.raw_ops.TopKV2(input=ranks, k=examples, sorted=True).indices

  def finish(
    self, parts: Sequence[tf.Tensor], key: tf.Tensor, draw: tf.Tensor, k: tf.Tensor
  ) -> list[tf.Tensor]:
    """Preprocesses batch k of an epoch, given its rows of each array."""
    for part, spec in zip(parts, self.specs, strict=True):
      part.set_shape(spec.shape)
    if self.preprocess is None:
      return list(parts)
    counter = tf.concat([tf.cast(k, tf.uint64)[None], draw + _PREPROCESSING], 0)
    seed = _random([2], key, counter, tf.int64)
    batch = tf.nest.pack_sequence_as(self.batch_spec, list(parts))
    return tf.nest.flatten(self.preprocess(batch, seed))

  @functools.cached_property
  def pipeline(self) -> Callable[..., tf.data.Dataset]:
    """(arrays, key, examples, size, batches) -> the batches as a data set.

    It has as few functions as possible, because an iterator prepares each of them again in every epoch, which
    takes milliseconds.
    """
    static_size = self.specs[0].shape[0]

    def pipeline(arrays, key, examples, size, batches):
      def epoch(draw):
        draw, rows = tf.cast(draw, tf.uint64)[None], arrays
        if self.shuffled:
          order = self.order(key, draw, tf.cast(examples, tf.int32))
          rows = [tf.gather(array, order) for array in arrays]
        return (tf.repeat(draw, examples), *rows) if self.preprocess else tuple(rows)

      def finish(k, parts):
        finished = self.finish(parts[1:], key, parts[0][:1], k)
        return _as_element(tf.nest.pack_sequence_as(self.element_spec, finished))

      def in_batches(data):
        return data.batch(static_size or size, drop_remainder=static_size is not None)

      if not self.shuffled and self.preprocess is None:
        data = in_batches(_slices(arrays, self.batch_spec))
      else:
        whole = draws().take(1).map(epoch)
        if self.preprocess is None:
          data = in_batches(_unbatched(whole, self.batch_spec))
        else:
          parts = (tf.TensorSpec([None], tf.uint64), *self.specs)
          data = in_batches(_unbatched(whole, parts)).enumerate().map(finish)
      return data.apply(tf.data.experimental.assert_cardinality(batches)).with_options(_options())

    arrays = [tf.TensorSpec([None, *spec.shape[1:]], spec.dtype) for spec in self.specs]
    number = tf.TensorSpec([], tf.int64)
    signature = [arrays, tf.TensorSpec([1], tf.uint64), number, number, number]
    return tf.function(pipeline, autograph=False, input_signature=signature)


def _slices(arrays: Sequence[tf.Tensor], batch_spec: Any) -> tf.data.Dataset:
  """Returns a data set of the rows of arrays, in the structure of a batch."""
  data = tf.data.Dataset.from_tensor_slices(tuple(arrays))
  return tf.data.experimental.from_variant(
    tf.data.experimental.to_variant(data), _example_spec(batch_spec)
  )


def _unbatched(data: tf.data.Dataset, batch_spec: Any) -> tf.data.Dataset:
  """Returns a data set of the rows of the arrays in `data`, in the structure of a batch."""
  spec = _example_spec(batch_spec)
  variant = tf.raw_ops.UnbatchDataset(
    input_dataset=tf.data.experimental.to_variant(data),
    output_types=[inner.dtype for inner in tf.nest.flatten(spec)],
    output_shapes=[inner.shape for inner in tf.nest.flatten(spec)],
  )
  return tf.data.experimental.from_variant(variant, spec)


def _example_spec(batch_spec: Any) -> Any:
  return tf.nest.map_structure(lambda s: tf.TensorSpec(s.shape[1:], s.dtype), batch_spec)


def rule_of(batch_spec: Any, preprocess: Preprocess | None, shuffled: bool) -> BatchRule:
  """Returns the rule; equal arguments give the same rule."""
  return _rule(_Key(batch_spec), preprocess, shuffled)


@functools.lru_cache(maxsize=1024)
def _rule(key: "_Key", preprocess: Preprocess | None, shuffled: bool) -> BatchRule:
  return BatchRule(key.spec, preprocess, shuffled)


class _Key:
  """A structure of specs that can be hashed."""

  def __init__(self, spec: Any):
    self.spec = spec
    self._content = hashable(spec)
    self._hash = hash(self._content)

  def __hash__(self) -> int:
    return self._hash

  def __eq__(self, other: object) -> bool:
    return isinstance(other, _Key) and self._content == other._content


def hashable(spec: Any) -> Hashable:
  """Returns the content of a structure of specs, including its containers, as something hashable."""
  if isinstance(spec, Mapping):
    return (type(spec), tuple((name, hashable(inner)) for name, inner in spec.items()))
  if isinstance(spec, (tuple, list)):
    return (type(spec), tuple(hashable(inner) for inner in spec))
  return spec


def draws() -> tf.data.Dataset:
  """Returns a data set whose e-th iteration begins with d_e."""
  spec = tf.TensorSpec([], tf.int64)
  variant = tf.raw_ops.RandomDatasetV2(
    seed=_SEED,
    seed2=_SEED2,
    seed_generator=tf.raw_ops.DummySeedGenerator(),
    rerandomize_each_iteration=True,
    output_types=[spec.dtype],
    output_shapes=[spec.shape],
  )
  return tf.data.experimental.from_variant(variant, spec)


def epoch_draw(epoch: tf.Tensor) -> tf.Tensor:
  """Returns d_e, uint64[1], of an epoch, computed as `RandomDatasetV2` does.

  Its seed generator takes two of the 32-bit numbers of a Philox stream for each iteration; they seed the
  iteration's own Philox stream, whose first number is d_e.
  """
  four_of = tf.cast(epoch // 2, tf.uint64)[None]
  counter = tf.concat([four_of, tf.constant([_SEED2], tf.uint64)], 0)
  four = _random([4], tf.constant([_SEED], tf.uint64), counter, tf.uint32)
  pair = tf.reshape(tf.cast(four, tf.uint64), [2, 2])[tf.cast(epoch % 2, tf.int32)]
  first, second = pair[:1], pair[1:]  # Split has no GPU kernel for uint64
  counter = tf.concat([tf.zeros([1], tf.uint64), second], 0)
  return tf.cast(_random([1], first, counter, tf.uint32), tf.uint64)


@functools.cache
def first_draw() -> int:
  """Returns d_0 as a number."""
  with tf.init_scope(), tf.device(CPU):
    return int(epoch_draw(tf.constant(0))[0])


def _random(shape: Any, key: tf.Tensor, counter: tf.Tensor, dtype: tf.DType) -> tf.Tensor:
  return tf.raw_ops.StatelessRandomUniformFullIntV2(
    shape=shape, key=key, counter=counter, alg=_PHILOX, dtype=dtype
  )


def _as_element(structure: Any) -> Any:
  """Returns a structure as `Dataset.map` takes it: it would stack the elements of a list."""
  return tuple(structure) if isinstance(structure, list) else structure


def _options() -> tf.data.Options:
  options = tf.data.Options()
  options.experimental_optimization.apply_default_optimizations = False
  options.autotune.enabled = False
  return options
