"""The transforms that `--transform` takes, as text: `fedexp`, `fedinit(beta=0.05)`, `fedinit+fedexp`.

    >>> [each.name for each in parse("fedinit(beta=0.05)+fedexp")]
    ['fedinit', 'fedexp']

The order of the names has no effect: FedInit changes what a client sends, so it comes before compression;
FedExP measures what was sent, so it comes after.
"""

import functools
import re
from collections.abc import Callable
from typing import Any, NamedTuple

from tff_momentum import call_syntax
from tff_momentum.algorithm import Algorithm
from tff_momentum.transforms.extrapolation import extrapolated
from tff_momentum.transforms.relaxed_start import relaxed


class Transform(NamedTuple):
  """A transform with its arguments.

  Attributes:
    name: on the command line.
    apply: Algorithm -> Algorithm.
    after_compression: whether it applies to compressed uploads.
  """

  name: str
  apply: Callable[[Algorithm], Algorithm]
  after_compression: bool


def fedexp(epsilon: Any = 1e-3, evaluate: str = "last") -> Transform:
  """FedExP's server learning rate; see `extrapolated`."""
  return Transform(
    "fedexp", functools.partial(extrapolated, epsilon=epsilon, evaluate=evaluate), True
  )


def fedinit(beta: Any = 0.1, aggregate: str = "moves", first_round: str = "initial") -> Transform:
  """FedInit's relaxed starts; see `relaxed`."""
  start = functools.partial(relaxed, beta=beta, aggregate=aggregate, first_round=first_round)
  return Transform("fedinit", start, False)


TRANSFORMS: dict[str, Callable[..., Transform]] = {"fedexp": fedexp, "fedinit": fedinit}


def parse(text: str) -> tuple[Transform, ...]:
  """Reads a text such as `fedinit(beta=0.05)+fedexp`.

  Raises:
    ValueError: the text names no transform, names one twice, or has other arguments than it.
  """
  found = tuple(
    call_syntax.evaluate("transform", each, TRANSFORMS, literal="")
    for each in re.split(r"\+(?=\s*[A-Za-z_])", text)
  )
  for each in found:
    if not isinstance(each, Transform):
      raise ValueError(f"transform must be one of {', '.join(TRANSFORMS)}; found {text!r}.")
  if len({each.name for each in found}) < len(found):
    raise ValueError(f"transform must name each transform once; found {text!r}.")
  return found


def apply(
  algorithm: Algorithm, text: str | None, compress: Callable[[Algorithm], Algorithm] | None = None
) -> Algorithm:
  """Applies the transforms of a text, and the compression in between.

  Args:
    algorithm: the algorithm.
    text: as for `parse`; None for no transform.
    compress: the compression; None for none.

  Raises:
    ValueError: a transform does not fit the algorithm.
  """
  found = () if text is None else parse(text)
  for each in found:
    algorithm = algorithm if each.after_compression else each.apply(algorithm)
  if compress is not None:
    algorithm = compress(algorithm)
  for each in found:
    algorithm = each.apply(algorithm) if each.after_compression else algorithm
  return algorithm
