"""Laws of what differs between clients: local steps, speeds, think times, availability.

    constant(5)   uniform(1, 10)   lognormal(1, 0.5)   trace:speeds.csv

A plain number is a constant. Line k of a trace belongs to client k (clients past the last line start over
at the first); its numbers, separated by commas, are taken in turn, one a round or job.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tff_momentum import calls, checks

TRACE = "trace:"


class Law(NamedTuple):
  """A law of positive numbers, or of numbers that may be 0.

  Attributes:
    text: as it was written.
    draw: (generator, client numbers, turn) -> a float64 for each client. The turn counts the rounds,
      or the client's jobs.
  """

  text: str
  draw: Callable[[np.random.Generator, np.ndarray, int], np.ndarray]


def read(what: str, text: str, *, above: float | None = None, at_least: float | None = None) -> Law:
  """Reads a law; raises ValueError, in one sentence, for any other text, or one that breaks the bounds.

  Args:
    what: the name of the quantity, for the error message.
    text: the law.
    above, at_least: bounds that every number of the law must keep.
  """

  def bounded(value: float, name: str = what) -> float:
    return checks.number(name, value, above=above, at_least=at_least)

  def constant(value: float) -> Draw:
    bounded(value)
    return lambda rng, clients, turn: np.full(len(clients), float(value))

  def uniform(low: float, high: float) -> Draw:
    bounded(low, f"the lower end of {what}")
    checks.number(f"the upper end of {what}", high, at_least=low)
    return lambda rng, clients, turn: rng.uniform(low, high, len(clients))

  def lognormal(mean: float, sigma: float) -> Draw:
    mu, sigma = _lognormal(what, mean, sigma)
    return lambda rng, clients, turn: rng.lognormal(mu, sigma, len(clients))

  forms = {"constant": constant, "uniform": uniform, "lognormal": lognormal}
  return _read(what, text, forms, bounded)


def read_whole(what: str, text: str) -> Law:
  """Reads a law of whole numbers of at least 1: `uniform` has both its ends, `lognormal` is rounded."""

  def whole(value: float, name: str = what) -> int:
    if isinstance(value, float) and value.is_integer():
      value = int(value)
    return checks.integer(name, value, at_least=1)

  def constant(value: int) -> Draw:
    whole(value)
    return lambda rng, clients, turn: np.full(len(clients), float(value))

  def uniform(low: int, high: int) -> Draw:
    whole(low, f"the lower end of {what}")
    checks.integer(f"the upper end of {what}", high, at_least=low)
    return lambda rng, clients, turn: rng.integers(low, high + 1, len(clients)).astype(float)

  def lognormal(mean: float, sigma: float) -> Draw:
    mu, sigma = _lognormal(what, mean, sigma)
    return lambda rng, clients, turn: np.maximum(1, np.rint(rng.lognormal(mu, sigma, len(clients))))

  forms = {"constant": constant, "uniform": uniform, "lognormal": lognormal}
  return _read(what, text, forms, whole)


Draw = Callable[[np.random.Generator, np.ndarray, int], np.ndarray]


def _read(what: str, text: str, forms: dict, check: Callable[[float], float]) -> Law:
  if text.startswith(TRACE):
    return Law(text, _trace(what, text.removeprefix(TRACE), check))
  found = calls.evaluate(what, text, forms)
  return Law(text, found if callable(found) else forms["constant"](found))


def _lognormal(what: str, mean: float, sigma: float) -> tuple[float, float]:
  """The logarithm's mean and standard deviation, from the mean of the numbers themselves and the latter."""
  checks.number(f"the mean of {what}", mean, above=0)
  checks.number(f"sigma of {what}", sigma, at_least=0)
  return math.log(mean) - sigma**2 / 2, sigma


def _trace(what: str, path: str, check: Callable[[float], float]) -> Draw:
  try:
    with open(path, encoding="utf-8") as file:
      lines = file.read().splitlines()
  except (OSError, UnicodeDecodeError) as error:
    raise ValueError(
      f"{what} must name a CSV file that can be read; found {path!r}: {error}."
    ) from None
  rows: list[list[float]] = []
  for number, line in enumerate(lines, 1):
    try:
      values = [float(part) for part in line.split(",")]
      for value in values:
        check(value)
    except ValueError as error:
      reason = str(error).rstrip(".")
      raise ValueError(f"{what}: line {number} of {path} must hold numbers; {reason}.") from None
    rows.append(values)
  if not rows:
    raise ValueError(f"{what} must name a CSV file with a line for each client; {path} is empty.")
  return lambda rng, clients, turn: np.array(
    [row[turn % len(row)] for row in (rows[i % len(rows)] for i in clients)]
  )
