"""What a client can do with its data in a round: take local steps, or compute a full gradient.

Batches come in the order of the client's data set; shuffle the data set to change it. All randomness of a
client (dropout, quantisation) derives from its seed for the round.
"""

import dataclasses
from collections.abc import Callable
from typing import Any, TypeAlias

import tensorflow as tf

from tff_momentum import hot_functions, trees, validation
from tff_momentum.models.model import Batch, Model, Seed, Tally, Weights, features_and_labels

Carry: TypeAlias = Any  # what an algorithm passes from one local step to the next
Gradient: TypeAlias = Callable[[Weights], Weights]
Step: TypeAlias = Callable[[Carry, Gradient], Carry]


@dataclasses.dataclass(frozen=True)
class LocalWork:
  """How many local steps a client takes in a round, and what happens to their gradients.

  Example:
    >>> import tff_momentum as tfm
    >>> tfm.LocalWork(steps=10, weight_decay=1e-4)
    LocalWork(epochs=1, steps=10, weight_decay=0.0001, clip_norm=None, uneven=False)

  Attributes:
    epochs: the number of passes over the client's data.
    steps: a fixed number of local steps instead; the data is repeated when it ends.
    weight_decay: λ ≥ 0; λ·y is added to every gradient at y.
    clip_norm: the largest norm of a local step's gradient, over all tensors together, before weight decay is
      added; longer ones are scaled down. None for no clipping. Full gradients are not clipped.
    uneven: whether each client's input gives its own number of steps (`ClientInput.steps`).

  Raises:
    ValueError: if a value is out of range.
  """

  epochs: int = 1
  steps: int | None = None
  weight_decay: float = 0.0
  clip_norm: float | None = None
  uneven: bool = False

  def __post_init__(self):
    validation.integer("client_epochs_per_round", self.epochs, at_least=1)
    if self.steps is not None:
      validation.integer("client_steps_per_round", self.steps, at_least=1)
    validation.number("weight_decay", self.weight_decay, at_least=0)
    if self.clip_norm is not None:
      validation.number("client_clip_norm", self.clip_norm, above=0)
    validation.boolean("uneven", self.uneven)


class Client:
  """A client in one round, as an algorithm's `client_update` sees it.

  An algorithm uses `round`, `seed`, `num_steps`, `num_examples`, `steps` and `full_gradient`. The rest is for
  measurements: a subclass may override `steps` and `full_gradient` to intercept an algorithm's calls, and
  use `num_batches`, `step_batches` and `step_gradient` to take the same steps itself.

  Example:
    >>> import numpy as np, tensorflow as tf, tff_momentum as tfm
    >>> from tff_momentum import trees
    >>> model = tfm.from_keras(
    ...   lambda: tf.keras.Sequential([tf.keras.layers.Dense(1, use_bias=False, input_shape=(1,))]),
    ...   loss=tf.keras.losses.MeanSquaredError(),
    ...   batch_spec=(tf.TensorSpec([None, 1]), tf.TensorSpec([None, 1])),
    ... )
    >>> data = tf.data.Dataset.from_tensors((np.float32([[1.0]]), np.float32([[3.0]])))
    >>> client = tfm.Client(
    ...   model, tfm.LocalWork(steps=20), data, seed=tf.zeros([2], tf.int32), round_number=0
    ... )
    >>> def step(y, grad):
    ...   return trees.map(lambda y, g: y - 0.25 * g, y, grad(y))
    >>> (y,) = client.steps(step, (tf.zeros([1, 1]),))
    >>> round(float(y), 3)
    3.0

  Attributes:
    round: the number of the round in which the client started, counted from 0.
    tally: the training metrics of the batches used so far; None before the first gradient.
    took_steps: whether `steps` was called.
  """

  def __init__(
    self,
    model: Model,
    work: LocalWork,
    data: tf.data.Dataset,
    seed: Seed,
    round_number: tf.Tensor,
    own_steps: tf.Tensor | None = None,
  ):
    """Makes a client; `build_process` does so for every client and round.

    Args:
      model: the model to train.
      work: the number of local steps, and the weight decay.
      data: the client's batches.
      seed: the client's seed for this round, int32[2].
      round_number: the round in which the client started.
      own_steps: the client's own number of local steps, int32, where 0 stands for the number in `work`; None
        if all clients follow `work`.
    """
    self._model = model
    self._value_and_grad = hot_functions.hot_function(model.value_and_grad)
    self._work = work
    self._data = data
    self._seed = seed
    self._own_steps = own_steps  # 0 for the usual number; None if the input gives no number
    self._num_batches: tf.Tensor | None = None
    self._num_examples: tf.Tensor | None = None
    self.round = round_number
    self.tally: Tally | None = None
    self.took_steps = False

  def seed(self, purpose: int) -> Seed:
    """A seed for this client and round; each purpose, a small non-negative integer, gets another one."""
    return tf.random.experimental.stateless_fold_in(self._seed, -1 - purpose)

  @property
  def num_steps(self) -> tf.Tensor:
    """K_i, the number of local steps that `steps` takes, as a float32 scalar; 0 for a client without data."""
    return tf.cast(self._step_count(), tf.float32)

  @property
  def num_examples(self) -> tf.Tensor:
    """n_i, the number of the client's examples, as a float32 scalar."""
    if self._num_examples is None:
      self._num_examples = self._data.reduce(tf.zeros([]), lambda n, batch: n + _size(batch))
    return self._num_examples

  @property
  def num_batches(self) -> tf.Tensor:
    """The number of batches in one pass over the client's data, as an int64 scalar."""
    if self._num_batches is None:
      known = self._data.cardinality()
      self._num_batches = tf.cond(
        known >= 0,
        lambda: known,
        lambda: self._data.reduce(tf.zeros([], tf.int64), lambda n, _: n + 1),
      )
    return self._num_batches

  def steps(self, step: Step, start: Carry) -> Carry:
    """Takes K_i local steps and returns the last carry.

    Args:
      step: (carry, grad) -> carry, where `grad(y)` is the mean gradient at y on this step's batch. A step may
        call it several times: all calls use the same batch and dropout masks, and the training metrics count
        the batch once, at the first point.
      start: the first carry, any structure of tensors.

    Returns:
      The carry after the last step; `start` for a client without data.
    """
    whole_epochs = self._work.steps is None and self._own_steps is None

    def body(value_and_grad, carry, batch):
      tallies = []

      def grad(y: Weights) -> Weights:
        tally, g = value_and_grad(y)
        tallies.append(tally)
        return self._with_weight_decay(self._clipped(g), y)

      carry = step(carry, grad)
      return carry, tallies[0] if tallies else self._model.empty_tally()

    self.took_steps = True
    carry, self.tally = self._fold(self.step_batches(), body, start)
    if whole_epochs:
      self._num_examples = self.tally.examples / self._work.epochs
    return carry

  def full_gradient(self, *points: Weights) -> Any:
    """Computes the mean gradient over all the client's examples, in one pass over the data.

    Batches are joined where the model allows it (`Model.full_gradient_batch`), which changes only rounding.

    Args:
      *points: the weights at which to take it.

    Returns:
      The gradient at the point; a tuple of gradients for several points. Zeros for a client without data.
    """

    def body(value_and_grad, sums, batch):
      n = _size(batch)
      results = [value_and_grad(x) for x in points]
      sums = tuple(
        trees.map(lambda s, g: s + n * g, total, g)
        for total, (_, g) in zip(sums, results, strict=True)
      )
      return sums, results[0][0]

    zeros = tuple(trees.zeros_like(x) for x in points)
    size = self._model.full_gradient_batch
    if size is None:
      sums, tally = self._fold(self._data, body, zeros)
    else:
      sums, tally = self._fold(_rebatched(self._data, size), body, zeros, same_sizes=False)
    self._num_examples = tally.examples
    if self.tally is None:
      self.tally = tally
    means = tuple(
      self._with_weight_decay(
        trees.map(lambda s: tf.math.divide_no_nan(s, tally.examples), total), x
      )
      for total, x in zip(sums, points, strict=True)
    )
    return means if len(means) > 1 else means[0]

  def step_batches(self) -> tf.data.Dataset:
    """The batches of the K_i local steps, in order; the data is repeated as often as needed."""
    if self._work.epochs == 1 and self._work.steps is None and self._own_steps is None:
      return self._data
    # A finite number of repetitions keeps the length of the data set known.
    count = self._step_count()
    passes = -(-count // tf.maximum(self.num_batches, 1))
    return self._data.repeat(passes).take(count)

  def step_gradient(self, y: Weights, batch: Batch, k: tf.Tensor) -> Weights:
    """The gradient that `grad(y)` is in local step k, whose batch is given.

    Args:
      y: the point.
      batch: batch k of `step_batches`.
      k: the number of the step, counted from 0; it determines the dropout masks.
    """
    k, batches = tf.cast(k, tf.int64), tf.maximum(self.num_batches, 1)
    full = k % batches < batches - 1  # the last batch of an epoch may be smaller
    _, g = self._value_and_grad(y, batch, self._batch_seed(k), tfm_full_batch=full)
    return self._with_weight_decay(self._clipped(g), y)

  def _fold(
    self, batches: tf.data.Dataset, body, start, *, same_sizes: bool = True
  ) -> tuple[Any, Tally]:
    """Folds `body` over batches and adds up the tallies.

    It is a reduction over the data set because the in-process runtime has a fast path for those.

    Args:
      batches: the batches.
      body: (value_and_grad, carry, batch) -> (carry, tally).
      start: the first carry.
      same_sizes: whether clients have full-sized batches of one size, for which XLA may compile the gradient.
    """
    first = (start, self._model.empty_tally())
    # With one batch we cannot tell whether it is full-sized. GPUs keep these 32-bit integers on the host,
    # where the branch between full and smaller batches is decided.
    several = tf.cast(self.num_batches > 1, tf.int32) if same_sizes else tf.zeros([], tf.int32)

    def step(state, batch):
      k, full_size, *leaves = state
      carry, tally = tf.nest.pack_sequence_as(first, leaves)
      size = tf.shape(tf.nest.flatten(batch)[0])[0]
      full_size += size * (1 - tf.minimum(full_size, 1))  # the first batch's size
      full = tf.equal(size * several, full_size)

      def value_and_grad(y: Weights) -> tuple[Tally, Weights]:
        return self._value_and_grad(y, batch, self._batch_seed(k), tfm_full_batch=full)

      carry, new = body(value_and_grad, carry, batch)
      return k + 1, full_size, *tf.nest.flatten((carry, trees.add(tally, new)))

    state = (tf.zeros([], tf.int64), tf.zeros([], tf.int32), *tf.nest.flatten(first))
    _, _, *leaves = batches.reduce(state, step)
    return tf.nest.pack_sequence_as(first, leaves)

  def _step_count(self) -> tf.Tensor:
    batches, fixed, own = self.num_batches, self._work.steps, self._own_steps
    if fixed is None and own is None:
      return batches * self._work.epochs
    steps = batches * self._work.epochs if fixed is None else tf.constant(fixed, tf.int64)
    if own is not None:
      steps = tf.where(own > 0, tf.cast(own, tf.int64), steps)
    return tf.where(batches > 0, steps, 0)

  def _batch_seed(self, k: tf.Tensor) -> Seed:
    return tf.random.experimental.stateless_fold_in(self._seed, tf.cast(k, tf.int32))

  def _clipped(self, g: Weights) -> Weights:
    longest = self._work.clip_norm
    if longest is None:
      return g
    return trees.scale(longest / tf.maximum(trees.norm(g), longest), g)

  def _with_weight_decay(self, g: Weights, y: Weights) -> Weights:
    decay = self._work.weight_decay
    return trees.map(lambda g, y: g + decay * y, g, y) if decay else g


def _size(batch: Batch) -> tf.Tensor:
  x, _ = features_and_labels(batch)
  return tf.cast(tf.shape(tf.nest.flatten(x)[0])[0], tf.float32)


def _rebatched(data: tf.data.Dataset, size: int) -> tf.data.Dataset:
  """The same examples in batches of another size.

  `Dataset.rebatch` would also map the data set, and the runtime reads only unmapped data by index.
  """
  element = tf.nest.map_structure(
    lambda spec: tf.TensorSpec([None, *spec.shape[1:]], spec.dtype), data.element_spec
  )
  variant = tf.raw_ops.RebatchDatasetV2(
    input_dataset=tf.data.experimental.to_variant(data),
    batch_sizes=tf.constant([size], tf.int64),
    drop_remainder=False,
    output_types=[spec.dtype for spec in tf.nest.flatten(element)],
    output_shapes=[spec.shape for spec in tf.nest.flatten(element)],
  )
  return tf.data.experimental.from_variant(variant, element)
