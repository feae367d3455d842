"""One sentence for each wrong hyperparameter: what was expected and what was found."""

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
  """Returns `value` if it is a finite number within the given bounds, else raises ValueError."""
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
  wanted = (
    " and ".join(["a finite number", *bounds])
    if len(bounds) != 1
    else (f"a finite number {bounds[0]}")
  )
  good = isinstance(value, (int, float)) and not isinstance(value, bool) and math.isfinite(value)
  good = good and (above is None or value > above) and (at_least is None or value >= at_least)
  good = good and (below is None or value < below) and (at_most is None or value <= at_most)
  if not good:
    raise ValueError(f"{name} must be {wanted}; found {value!r}.")
  return value


def integer(name: str, value: Any, *, at_least: int) -> int:
  """Returns `value` if it is a whole number of at least `at_least`, else raises ValueError."""
  if isinstance(value, bool) or not isinstance(value, int) or value < at_least:
    raise ValueError(f"{name} must be a whole number of at least {at_least}; found {value!r}.")
  return value


def one_of(name: str, value: Any, choices: Collection[str]) -> str:
  """Returns `value` if it is among `choices`, else raises ValueError."""
  if value not in tuple(choices):
    raise ValueError(f"{name} must be one of {', '.join(choices)}; found {value!r}.")
  return value


def boolean(name: str, value: Any) -> bool:
  """Returns `value` if it is True or False, else raises ValueError."""
  if not isinstance(value, bool):
    raise ValueError(f"{name} must be True or False; found {value!r}.")
  return value
