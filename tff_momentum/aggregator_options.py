"""What may take the place of the mean over clients, as text: `dp(...)`, `clip(...)`, `robust(...)`.

    >>> parse("dp(noise_multiplier=1.0, clip=0.5)")
    PrivateMean(noise_multiplier=1.0, clip=0.5, delta=None, sampling='poisson')
    >>> parse("clip(norm=-1)")
    Traceback (most recent call last):
    ValueError: norm must be a finite number above 0; found -1.

The records import nothing heavy, so command lines can check them without loading TensorFlow.
`tff_momentum.processes.aggregators.factory` builds TFF's aggregators from them.
"""

import dataclasses
from collections.abc import Callable
from typing import TypeAlias

from tff_momentum import call_syntax, validation

# How `PrivateMean` counts the random choice of cohorts; see `tff_momentum.privacy`.
SAMPLING = ("poisson", "fixed_size", "none")


@dataclasses.dataclass(frozen=True)
class PrivateMean:
  """Differential privacy for clients: clipped uploads, their sum with Gaussian noise, over a fixed number.

  Attributes:
    noise_multiplier: z > 0; the standard deviation of the noise is z·clip.
    clip: the largest norm of an upload, over all its tensors; longer ones are scaled down.
    delta: δ of the (ε, δ) that a run reports; None for N^(−1.1), with N the number of clients.
    sampling: how the accounting counts the random choice of cohorts.
  """

  noise_multiplier: float
  clip: float
  delta: float | None = None
  sampling: str = "poisson"

  def __post_init__(self):
    validation.number("noise_multiplier", self.noise_multiplier, above=0)
    validation.number("clip", self.clip, above=0)
    if self.delta is not None:
      validation.number("delta", self.delta, above=0, below=1)
    validation.one_of("sampling", self.sampling, SAMPLING)


@dataclasses.dataclass(frozen=True)
class ClippedMean:
  """The weighted mean of uploads with a norm of at most `norm`, over all tensors; longer ones are scaled."""

  norm: float

  def __post_init__(self):
    validation.number("norm", self.norm, above=0)


@dataclasses.dataclass(frozen=True)
class RobustMean:
  """TFF's robust mean: both bounds follow the norms of the uploads that clients send.

  Attributes:
    zeroing: count an upload with an entry far beyond those of the others as zero.
    clipping: scale an upload that is longer than most others down.
  """

  zeroing: bool = True
  clipping: bool = True

  def __post_init__(self):
    validation.boolean("zeroing", self.zeroing)
    validation.boolean("clipping", self.clipping)
    if not self.zeroing and not self.clipping:
      raise ValueError("robust needs zeroing or clipping; found neither: leave out the aggregator.")


Aggregation: TypeAlias = PrivateMean | ClippedMean | RobustMean
AGGREGATIONS: dict[str, Callable[..., Aggregation]] = {
  "dp": PrivateMean,
  "clip": ClippedMean,
  "robust": RobustMean,
}


def parse(text: str) -> Aggregation:
  """Reads a text such as `dp(noise_multiplier=1.0, clip=0.5)`.

  Raises:
    ValueError: the text names no aggregator, or a value is out of its range.
  """
  found = call_syntax.evaluate("aggregator", text, AGGREGATIONS, literal="")
  if not isinstance(found, PrivateMean | ClippedMean | RobustMean):
    known = ", ".join(f"{name}(…)" for name in AGGREGATIONS)
    raise ValueError(f"aggregator must be one of {known}; found {text!r}.")
  return found
