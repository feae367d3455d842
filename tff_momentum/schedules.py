"""Hyperparameters that change over the rounds: a schedule maps the round (from 0) to a value.

Builders accept a number or a `Schedule` for every hyperparameter that the papers vary. A schedule knows the
lowest and highest value it can take, so a builder can reject a bad one before anything runs. On the command
line a schedule is written like a call: `step(0.1, every=100, factor=0.5)`.

    >>> rate = step(0.1, every=100, factor=0.5)
    >>> [round(float(rate(t)), 3) for t in (0, 99, 100, 250)]
    [0.1, 0.1, 0.05, 0.025]
"""

import dataclasses
import math
from collections.abc import Callable, Sequence

import tensorflow as tf

from tff_momentum import call_syntax, ranges, validation


@dataclasses.dataclass(frozen=True)
class Schedule:
  """A function of the round, with the bounds of its values and the text that spells it.

  Attributes:
    function: round as a float32 scalar -> value.
    low: the lowest value.
    high: the highest value.
    text: the schedule as the command line writes it.
  """

  function: Callable[[tf.Tensor], tf.Tensor]
  low: float
  high: float
  text: str

  def __call__(self, round_number: int | tf.Tensor) -> tf.Tensor:
    """Returns the value in this round, a float32 scalar."""
    return tf.cast(self.function(tf.cast(round_number, tf.float32)), tf.float32)

  def __str__(self) -> str:
    return self.text


def constant(value: float) -> Schedule:
  """The same value in every round."""
  validation.number("constant's value", value)
  return Schedule(lambda t: tf.constant(value, tf.float32), value, value, f"{value:g}")


def step(value: float, *, every: int, factor: float = 0.5) -> Schedule:
  """ "Constant and drop": the value is multiplied by `factor` after every `every` rounds.

  Args:
    value: the value in the first rounds.
    every: the number of rounds between drops, at least 1.
    factor: in (0, 1].
  """
  validation.number("step's value", value)
  validation.integer("step's every", every, at_least=1)
  validation.number("step's factor", factor, above=0, at_most=1)
  return Schedule(
    lambda t: value * factor ** tf.floor(t / every),
    *_ordered(0.0, value),
    f"step({value:g}, every={every}, factor={factor:g})",
  )


def multistage(lengths: Sequence[int], values: Sequence[float]) -> Schedule:
  """`values[s]` for `lengths[s]` rounds, stage after stage; the last value never ends.

  Raises:
    ValueError: the two lists differ in length or are empty, or an entry is out of range.
  """
  if not lengths or len(lengths) != len(values):
    raise ValueError(
      "multistage needs as many lengths as values, at least one; "
      f"found {len(lengths)} lengths and {len(values)} values."
    )
  for length in lengths:
    validation.integer("a stage's length", length, at_least=1)
  for value in values:
    validation.number("a stage's value", value)
  ends = [float(sum(lengths[: s + 1])) for s in range(len(lengths) - 1)]

  def value_at(t):
    stage = tf.reduce_sum(tf.cast(t >= tf.constant(ends, tf.float32), tf.int32))
    return tf.gather(tf.constant(values, tf.float32), stage)

  return Schedule(
    value_at, min(values), max(values), f"multistage({list(lengths)}, {list(values)})"
  )


def exponential(value: float, *, decay: float) -> Schedule:
  """value · decay^t, with decay in (0, 1]."""
  validation.number("exponential's value", value)
  validation.number("exponential's decay", decay, above=0, at_most=1)
  return Schedule(
    lambda t: value * decay**t, *_ordered(0.0, value), f"exponential({value:g}, decay={decay:g})"
  )


def cosine(value: float, *, rounds: int, final: float = 0.0) -> Schedule:
  """From `value` to `final` along half a cosine in `rounds` rounds, then constant."""
  validation.number("cosine's value", value)
  validation.number("cosine's final", final)
  validation.integer("cosine's rounds", rounds, at_least=1)

  def value_at(t):
    done = tf.minimum(t / rounds, 1.0)
    return final + (value - final) * 0.5 * (1.0 + tf.cos(math.pi * done))

  return Schedule(
    value_at, *_ordered(value, final), f"cosine({value:g}, rounds={rounds}, final={final:g})"
  )


def polynomial(value: float, *, power: float = 1.0, rounds: float = 1.0) -> Schedule:
  """value · (1 + t/rounds)^(−power), as in proofs of convergence: with power 1, it falls like 1/t.

  Args:
    value: the value in the first round.
    power: above 0.
    rounds: the number of rounds after which the value has fallen by the factor 2^power, above 0.
  """
  validation.number("polynomial's value", value)
  validation.number("polynomial's power", power, above=0)
  validation.number("polynomial's rounds", rounds, above=0)
  return Schedule(
    lambda t: value * (1.0 + t / rounds) ** (-power),
    *_ordered(0.0, value),
    f"polynomial({value:g}, power={power:g}, rounds={rounds:g})",
  )


SCHEDULES: dict[str, Callable[..., Schedule]] = {
  "constant": constant,
  "step": step,
  "multistage": multistage,
  "exponential": exponential,
  "cosine": cosine,
  "polynomial": polynomial,
}


def schedule(name: str, value: float | str | Schedule, **bounds: float) -> Schedule:
  """Converts a hyperparameter to a schedule and checks that its values lie within `bounds`.

  Args:
    name: the hyperparameter's name, for the error message.
    value: a number, a schedule, or text that spells a schedule.
    **bounds: the bounds of `validation.number`.

  Returns:
    The schedule; a number becomes a constant.

  Raises:
    ValueError: the value is no schedule, or leaves its bounds.
  """
  if isinstance(value, str):
    value = call_syntax.evaluate(name, value, SCHEDULES, **ranges.SCHEDULE_WORDS)
  if not isinstance(value, Schedule):
    value = constant(validation.number(name, value, **bounds))
  # Unlike a constant, a schedule may fall to zero: its last rounds then change nothing.
  if bounds.get("above") == 0 and value.high > 0 and value.low == 0:
    bounds = {**bounds, "at_least": 0}
    del bounds["above"]
  for bound in (value.low, value.high):
    validation.number(name, bound, **bounds)
  return value


def _ordered(a: float, b: float) -> tuple[float, float]:
  return (a, b) if a <= b else (b, a)
