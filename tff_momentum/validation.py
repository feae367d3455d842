"""Checks of hyperparameters; each error is one sentence that says what was expected and what was found.

>>> number("beta", 0.9, at_least=0, below=1)
0.9
>>> number("beta", 1.5, at_least=0, below=1)
Traceback (most recent call last):
ValueError: beta must be a finite number at least 0 and below 1; found 1.5.
"""

import math
from collections.abc import Collection
from typing import Any


def number(
  name: str,
  value: Any,
  *,
  above: float | None = None,
  at_least: float | None = None,
  below: float | None = None,
  at_most: float | None = None,
) -> float:
  """Returns `value` if it is a finite number within the given bounds.

  Args:
    name: the name of the value, for the error message.
    value: what to check.
    above: exclusive lower bound.
    at_least: inclusive lower bound.
    below: exclusive upper bound.
    at_most: inclusive upper bound.

  Raises:
    ValueError: it is not.
  """
  bounds = [
    f"{word} {bound:g}"
    for word, bound in (
      ("above", above),
      ("at least", at_least),
      ("below", below),
      ("at most", at_most),
    )
    if bound is not None
  ]
  wanted = " ".join(["a finite number", " and ".join(bounds)]).rstrip()
  good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
  good = good and (above is None or value > above) and (at_least is None or value >= at_least)
  good = good and (below is None or value < below) and (at_most is None or value <= at_most)
  if not good:
    raise ValueError(f"{name} must be {wanted}; found {value!r}.")
  return value


def integer(name: str, value: Any, *, at_least: int) -> int:
  """Returns `value` if it is a whole number of at least `at_least`; raises ValueError otherwise."""
  if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
    raise ValueError(f"{name} must be a whole number of at least {at_least}; found {value!r}.")
  return value


def one_of(name: str, value: Any, choices: Collection[str]) -> str:
  """Returns `value` if it is among `choices`; raises ValueError otherwise."""
  if value not in tuple(choices):
    raise ValueError(f"{name} must be one of {', '.join(choices)}; found {value!r}.")
  return value


def boolean(name: str, value: Any) -> bool:
  """Returns `value` if it is True or False; raises ValueError otherwise."""
  if not isinstance(value, bool):
    raise ValueError(f"{name} must be True or False; found {value!r}.")
  return value
