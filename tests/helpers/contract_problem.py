"""The testing kit's quadratics, and this library's algorithms on them."""

import functools

from tff_momentum import algorithms
from tff_momentum.registry import ALGORITHMS, REQUIRED
from tff_momentum.testing.candidate import Candidate
from tff_momentum.testing.quadratics import (
  COHORTS,
  EXAMPLES,
  SIZES,
  dataset,
  loss,
  quadratic_model,
)
from tff_momentum.testing.quadratics import QuadraticTask as Task
from tff_momentum.testing.runs import as_arrays

__all__ = [
  "COHORTS",
  "EXAMPLES",
  "SIZES",
  "Task",
  "arguments",
  "as_arrays",
  "compiled",
  "dataset",
  "loss",
  "quadratic_model",
]


def arguments(name: str) -> dict:
  """The arguments of this suite for an algorithm's builder."""
  parameters = ALGORITHMS[name].hyperparameters
  required = {n for n, default in parameters.items() if default is REQUIRED}
  assert required <= EXAMPLES.keys(), f"{name} needs an example of {required - EXAMPLES.keys()}"
  return {n: value for n, value in EXAMPLES.items() if n in parameters}


@functools.cache
def compiled(name: str):
  """The process of an algorithm, with the suite's hyperparameters."""
  return Candidate(algorithms.builder(name), {}).process
