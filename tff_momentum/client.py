"""What a client can do with its own data in a round: walk over it step by step, or take a full gradient.

The order of the batches is the order of the data set that the client was given; who shuffles it does so
before. All randomness of a client (dropout, quantisation) grows from its seed for the round.
"""

import dataclasses
from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tff_momentum import hot_functions, trees, validation
from tff_momentum.models.model import Batch, Model, Tally, Weights, features_and_labels


@dataclasses.dataclass(frozen=True)
class LocalWork:
  """How far a client walks in a round, and the weight decay in all its gradients.

  Attributes:
    epochs: passes over the client's data ...
    steps: ... or a fixed number of steps, starting over when the data ends.
    weight_decay: added to every gradient as weight_decay · y.
    uneven: whether a client may be told a number of steps of its own (`ClientInput.steps`).
  """

  epochs: int = 1
  steps: int | None = None
  weight_decay: float = 0.0
  uneven: bool = False

  def __post_init__(self):
    validation.integer("client_epochs_per_round", self.epochs, at_least=1)
    if self.steps is not None:
      validation.integer("client_steps_per_round", self.steps, at_least=1)
    validation.number("weight_decay", self.weight_decay, at_least=0)
    validation.boolean("uneven", self.uneven)


class Client:
  """A client in one round, as an algorithm's `client_update` sees it.

  Attributes:
    round: the number of the round in which the client started, from 0.
    tally: the training metrics of the batches gone over so far; None if none were.
    walked: whether local steps were taken.
  """

  def __init__(
    self,
    model: Model,
    work: LocalWork,
    data: tf.data.Dataset,
    seed: tf.Tensor,
    round_number: tf.Tensor,
    own_steps: tf.Tensor | None = None,
  ):
    self._model = model
    self._value_and_grad = hot_functions.hot_function(model.value_and_grad)
    self._work = work
    self._data = data
    self._seed = seed
    self._own_steps = own_steps  # 0 for the usual number; None where nobody is told
    self._num_batches: tf.Tensor | None = None
    self._num_examples: tf.Tensor | None = None
    self.round = round_number
    self.tally: Tally | None = None
    self.walked = False

  def seed(self, purpose: int) -> tf.Tensor:
    """A seed of this client's own in this round, another one for each purpose (a small number)."""
    return tf.random.experimental.stateless_fold_in(self._seed, -1 - purpose)

  @property
  def num_steps(self) -> tf.Tensor:
    """K_i, the local steps that `steps` takes, as a float32 scalar; 0 for a client with no data."""
    return tf.cast(self._steps_to_take(), tf.float32)

  @property
  def num_examples(self) -> tf.Tensor:
    """n_i, the examples that the client holds, as a float32 scalar."""
    if self._num_examples is None:
      self._num_examples = self._data.reduce(tf.zeros([]), lambda n, batch: n + _size(batch))
    return self._num_examples

  def steps(self, step: Callable[[Any, Callable[[Weights], Weights]], Any], start: Any) -> Any:
    """Takes K_i local steps and returns where they lead.

    Args:
      step: (carry, grad) -> carry, where `grad(y)` is the mean gradient at y on this step's batch.
        However often a step calls it, the batch and the dropout are the same, and the training
        metrics count the batch once, at the first point.
      start: the first carry, any structure of tensors.
    """
    whole_epochs = self._work.steps is None and self._own_steps is None

    def body(value_and_grad, carry, batch):
      tallies = []

      def grad(y: Weights) -> Weights:
        tally, g = value_and_grad(y)
        tallies.append(tally)
        return self._with_weight_decay(g, y)

      carry = step(carry, grad)
      return carry, tallies[0] if tallies else self._model.empty_tally()

    self.walked = True
    carry, self.tally = self._fold(self._steps_to_take(), body, start)
    if whole_epochs:
      self._num_examples = self.tally.examples / self._work.epochs
    return carry

  def full_gradient(self, *points: Weights) -> Any:
    """The mean gradient over all the client's examples, in one pass; a tuple if of several points."""

    def body(value_and_grad, sums, batch):
      n = _size(batch)
      results = [value_and_grad(x) for x in points]
      sums = tuple(
        trees.map(lambda s, g: s + n * g, total, g)
        for total, (_, g) in zip(sums, results, strict=True)
      )
      return sums, results[0][0]

    zeros = tuple(trees.zeros_like(x) for x in points)
    sums, tally = self._fold(self._batches(), body, zeros)
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

  def _fold(self, count, body, start) -> tuple[Any, Tally]:
    """Folds `body` over `count` batches, starting over when the data ends, and adds up the tallies.

    A reduction over the data set, since that is what the in-process runtime knows how to read fast.
    """
    first, several = (start, self._model.empty_tally()), self._batches() > 1

    def step(state, batch):
      k, full_size, *leaves = state
      carry, tally = tf.nest.pack_sequence_as(first, leaves)
      size = _size(batch)
      full_size = tf.where(tf.equal(k, 0), size, full_size)
      # With one batch we cannot tell whether it is full-sized.
      full = tf.equal(size, full_size) & several

      def value_and_grad(y: Weights) -> tuple[Tally, Weights]:
        return self._value_and_grad(y, batch, self._batch_seed(k), tfm_full_batch=full)

      carry, new = body(value_and_grad, carry, batch)
      return k + 1, full_size, *tf.nest.flatten((carry, trees.add(tally, new)))

    state = (tf.zeros([], tf.int64), tf.zeros([]), *tf.nest.flatten(first))
    _, _, *leaves = self._first(count).reduce(state, step)
    return tf.nest.pack_sequence_as(first, leaves)

  def _first(self, count: tf.Tensor) -> tf.data.Dataset:
    """The first `count` batches of the data, repeated as often as need be."""
    if self._work.epochs == 1 and self._work.steps is None and self._own_steps is None:
      return self._data
    # A number of times, not without end: so the length of the data stays known.
    passes = -(-count // tf.maximum(self._batches(), 1))
    return self._data.repeat(passes).take(count)

  def _batches(self) -> tf.Tensor:
    if self._num_batches is None:
      known = self._data.cardinality()
      self._num_batches = tf.cond(
        known >= 0,
        lambda: known,
        lambda: self._data.reduce(tf.zeros([], tf.int64), lambda n, _: n + 1),
      )
    return self._num_batches

  def _steps_to_take(self) -> tf.Tensor:
    batches, fixed, own = self._batches(), self._work.steps, self._own_steps
    if fixed is None and own is None:
      return batches * self._work.epochs
    steps = batches * self._work.epochs if fixed is None else tf.constant(fixed, tf.int64)
    if own is not None:
      steps = tf.where(own > 0, tf.cast(own, tf.int64), steps)
    return tf.where(batches > 0, steps, 0)

  def _batch_seed(self, k: tf.Tensor) -> tf.Tensor:
    return tf.random.experimental.stateless_fold_in(self._seed, tf.cast(k, tf.int32))

  def _with_weight_decay(self, g: Weights, y: Weights) -> Weights:
    decay = self._work.weight_decay
    return trees.map(lambda g, y: g + decay * y, g, y) if decay else g


def _size(batch: Batch) -> tf.Tensor:
  x, _ = features_and_labels(batch)
  return tf.cast(tf.shape(tf.nest.flatten(x)[0])[0], tf.float32)
