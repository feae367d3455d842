"""Distributions of what varies between clients: local steps, speeds, think times, availability.

    constant(5)   uniform(1, 10)   lognormal(1, 0.5)   trace:speeds.csv

A plain number is a constant. `lognormal(mean, sigma)` takes the mean of the numbers themselves and the
standard deviation of their logarithm. A trace is a CSV file without a header: line k belongs to client k, and
clients beyond the last line start again from the first line. A line's numbers are used in turn, one for each
round or job.
"""

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from tff_momentum import call_syntax, validation

TRACE = "trace:"

Check = Callable[
  [str, float], None
]  # (name, value); raises ValueError if the value is out of bounds
DrawUniform = Callable[
  [np.random.Generator, float, float, int], np.ndarray
]  # (rng, low, high, count)


class Distribution(NamedTuple):
  """A distribution of numbers over clients.

  Attributes:
    text: the text that was parsed.
    draw: (generator, client numbers, turn) -> one number for each client. The turn is the round number,
      or the number of jobs that the client has finished; only traces depend on it.
  """

  text: str
  draw: Callable[[np.random.Generator, np.ndarray, int], np.ndarray]


def parse(
  what: str, text: str, *, above: float | None = None, at_least: float | None = None
) -> Distribution:
  """Parses a distribution of real numbers.

  Args:
    what: the name of the quantity, for error messages.
    text: the distribution, in the syntax above.
    above: exclusive lower bound of the numbers in `text`.
    at_least: inclusive lower bound of the numbers in `text`.

  Raises:
    ValueError: the text is not a distribution, or one of its numbers is out of bounds; in one sentence.

  Example:
    >>> speeds = parse("client_speed", "uniform(1, 2)", above=0)
    >>> speeds.draw(np.random.default_rng(0), np.arange(3), 0).round(2)
    array([1.64, 1.27, 1.04])
  """

  def check(name: str, value: float) -> None:
    validation.number(name, value, above=above, at_least=at_least)

  return _parse(what, text, check, np.random.Generator.uniform, lambda values: values)


def parse_integers(what: str, text: str) -> Distribution:
  """Parses a distribution of integers of at least 1.

  `uniform` includes both ends; `lognormal` is rounded to the nearest integer, and to 1 if that is smaller.

  Args:
    what: the name of the quantity, for error messages.
    text: the distribution, in the syntax above.

  Raises:
    ValueError: as `parse`; also for a number that is not an integer.

  Example:
    >>> steps = parse_integers("client_steps", "uniform(1, 10)")
    >>> steps.draw(np.random.default_rng(0), np.arange(5), 0)
    array([9, 7, 6, 3, 4])
  """

  def check(name: str, value: float) -> None:
    whole = isinstance(value, float) and value.is_integer()
    validation.integer(name, int(value) if whole else value, at_least=1)

  def uniform(rng: np.random.Generator, low: float, high: float, count: int) -> np.ndarray:
    return rng.integers(int(low), int(high) + 1, count)

  return _parse(what, text, check, uniform, lambda values: np.maximum(1.0, np.rint(values)))


def mean(distribution: Distribution, count: int = 1000) -> float:
  """The mean over clients, estimated from `count` of them, the same for the same distribution.

  Example:
    >>> mean(parse_integers("client_steps", "7"))
    7.0
  """
  rng = np.random.default_rng(0)
  return float(np.mean(distribution.draw(rng, np.arange(count), 0)))


def _parse(
  what: str,
  text: str,
  check: Check,
  draw_uniform: DrawUniform,
  rounded: Callable[[np.ndarray], np.ndarray],
) -> Distribution:
  def constant(value: float) -> Distribution:
    check(what, value)
    return Distribution(text, lambda rng, clients, turn: np.full(len(clients), float(value)))

  def uniform(low: float, high: float) -> Distribution:
    check(f"the lower end of {what}", low)
    check(f"the upper end of {what}", high)
    validation.number(f"the upper end of {what}", high, at_least=low)
    return Distribution(text, lambda rng, clients, turn: draw_uniform(rng, low, high, len(clients)))

  def lognormal(mean: float, sigma: float) -> Distribution:
    validation.number(f"the mean of {what}", mean, above=0)
    validation.number(f"sigma of {what}", sigma, at_least=0)
    mu = math.log(mean) - sigma**2 / 2  # E[exp(mu + sigma z)] = mean
    return Distribution(
      text, lambda rng, clients, turn: rounded(rng.lognormal(mu, sigma, len(clients)))
    )

  if text.startswith(TRACE):
    rows = _trace_rows(what, text.removeprefix(TRACE), check)
    return Distribution(
      text,
      lambda rng, clients, turn: np.array(
        [row[turn % len(row)] for row in (rows[i % len(rows)] for i in clients)]
      ),
    )
  forms: dict[str, Callable[..., Distribution]] = {
    "constant": constant,
    "uniform": uniform,
    "lognormal": lognormal,
  }
  found = call_syntax.evaluate(what, text, forms)
  return found if isinstance(found, Distribution) else constant(found)


def _trace_rows(what: str, path: str, check: Check) -> list[list[float]]:
  """The numbers in each line of a trace file."""
  try:
    with open(path, encoding="utf-8") as file:
      lines = file.read().splitlines()
  except (OSError, UnicodeDecodeError) as error:
    raise ValueError(f"{what} must name a readable CSV file; found {path!r}: {error}.") from None
  rows: list[list[float]] = []
  for number, line in enumerate(lines, 1):
    try:
      rows.append([float(part) for part in line.split(",")])
      for value in rows[-1]:
        check("each", value)
    except ValueError as error:
      reason = str(error).rstrip(".")
      raise ValueError(f"{what}: line {number} of {path} must hold numbers; {reason}.") from None
  if not rows:
    raise ValueError(f"{what} must name a CSV file with a line for each client; {path} is empty.")
  return rows
