"""Laws of what differs between clients: local steps, speeds, think times, availability.

    constant(5)   uniform(1, 10)   lognormal(1, 0.5)   trace:speeds.csv

A plain number is a constant. Line k of a trace belongs to client k (clients past the last line start over
at the first); its numbers, separated by commas, are taken in turn, one a round or job.
"""

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from tff_momentum import call_syntax, validation

TRACE = "trace:"


Check = Callable[[str, float], Any]  # raises ValueError for a number that does not do, by its name


class Distribution(NamedTuple):
  """A distribution of numbers.

  Attributes:
    text: as it was written.
    draw: (generator, client numbers, turn) -> a float64 for each client. The turn counts the rounds,
      or the client's jobs.
  """

  text: str
  draw: Callable[[np.random.Generator, np.ndarray, int], np.ndarray]


def parse(
  what: str, text: str, *, above: float | None = None, at_least: float | None = None
) -> Distribution:
  """Reads a distribution; raises ValueError, in one sentence, for any other text.

  Args:
    what: the name of the quantity, for the error message.
    text: the distribution.
    above, at_least: bounds that every number of the distribution must keep.
  """

  def check(name: str, value: float) -> None:
    validation.number(name, value, above=above, at_least=at_least)

  return _parse(what, text, check, np.random.Generator.uniform, lambda values: values)


def parse_integers(what: str, text: str) -> Distribution:
  """Reads a distribution of integers of at least 1: `uniform` has both its ends, `lognormal` is rounded."""

  def check(name: str, value: float) -> None:
    whole = isinstance(value, float) and value.is_integer()
    validation.integer(name, int(value) if whole else value, at_least=1)

  def uniform(rng: np.random.Generator, low: int, high: int, count: int) -> np.ndarray:
    return rng.integers(low, high + 1, count)

  return _parse(what, text, check, uniform, lambda values: np.maximum(1.0, np.rint(values)))


def _parse(
  what: str,
  text: str,
  check: Check,
  draw_uniform: Callable[[np.random.Generator, Any, Any, int], np.ndarray],
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
    mu = math.log(mean) - sigma**2 / 2  # so that `mean` is that of the numbers themselves
    return Distribution(
      text, lambda rng, clients, turn: rounded(rng.lognormal(mu, sigma, len(clients)))
    )

  if text.startswith(TRACE):
    rows = _rows(what, text.removeprefix(TRACE), check)
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


def _rows(what: str, path: str, check: Check) -> list[list[float]]:
  """The numbers in each line of a trace."""
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
      rows.append([float(part) for part in line.split(",")])
      for value in rows[-1]:
        check("each", value)
    except ValueError as error:
      reason = str(error).rstrip(".")
      raise ValueError(f"{what}: line {number} of {path} must hold numbers; {reason}.") from None
  if not rows:
    raise ValueError(f"{what} must name a CSV file with a line for each client; {path} is empty.")
  return rows
