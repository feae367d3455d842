"""One colour and line style per algorithm, the same in all figures.

The first colours are those of Okabe and Ito, which readers with any colour vision can distinguish, without
yellow, which does not print well. The others are Paul Tol's. Line styles and markers differ as well, so that
the figures remain readable in greyscale.
"""

import zlib
from typing import NamedTuple

from tff_momentum.registry import ALGORITHMS

COLOURS = ("#000000", "#E69F00", "#0072B2", "#009E73", "#D55E00", "#56B4E9", "#CC79A7")
FURTHER = ("#882255", "#332288", "#999933", "#AA4499", "#777777", "#661100", "#44AA99")
LineStyle = str | tuple[float, tuple[float, ...]]  # as matplotlib takes it
DASHES: tuple[LineStyle, ...] = (
  "-",
  (0, (5, 1.6)),
  (0, (6, 1.4, 1.2, 1.4)),
  (0, (1.4, 1.2)),
  (0, (7, 1.3, 1.3, 1.3, 1.3, 1.3)),
)
MARKERS = ("", "o", "s", "^", "D", "v", "P", "X")
# The methods that papers compare most often come first, so that their colours differ.
FIRST = ("fedavg", "feddyn", "scaffold", "mime", "ghbm", "fedhbm", "fedavgm")

# Reference lines are grey, so that they are not mistaken for algorithms.
REFERENCE_COLOUR = "#8C8C8C"
REFERENCE_DASHES: dict[str, LineStyle] = {"centralised": (0, (4, 2)), "local_only": (0, (1, 1.6))}


class Style(NamedTuple):
  """The line style of an algorithm."""

  colour: str
  dashes: LineStyle
  marker: str


def _place(algo: str) -> int:
  order = [*FIRST, *(name for name in ALGORITHMS if name not in FIRST)]
  return order.index(algo) if algo in order else zlib.crc32(algo.encode())


def style(algo: str, variant: int = 0) -> Style:
  """The style of an algorithm; its variants differ in the marker."""
  if algo in REFERENCE_DASHES:
    return Style(REFERENCE_COLOUR, REFERENCE_DASHES[algo], MARKERS[variant % len(MARKERS)])
  place = _place(algo)
  block = place // len(COLOURS)
  return Style(
    (*COLOURS, *FURTHER)[place % (len(COLOURS) + len(FURTHER))],
    DASHES[(place + block) % len(DASHES)],
    MARKERS[(block + variant) % len(MARKERS)],
  )
