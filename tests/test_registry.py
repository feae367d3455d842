"""The registry agrees with the builders it describes."""

import inspect

import pytest

from tff_momentum import algorithms
from tff_momentum.registry import ALGORITHMS, REQUIRED

every_algorithm = pytest.mark.parametrize("name", ALGORITHMS)


@every_algorithm
def test_hyperparameters_are_those_of_the_builders_signature(name):
  """Names, order and defaults, to the type: 1 is not 1.0."""
  parameters = inspect.signature(algorithms.builder(name)).parameters
  signature = [
    (key, REQUIRED if p.default is inspect.Parameter.empty else p.default)
    for key, p in parameters.items()
  ]
  registered = list(ALGORITHMS[name].hyperparameters.items())
  assert registered == signature
  assert [type(value) for _, value in registered] == [type(value) for _, value in signature]


@every_algorithm
def test_the_module_defines_the_builder(name):
  module = f"tff_momentum.algorithms.{ALGORITHMS[name].module}"
  assert inspect.unwrap(algorithms.builder(name)).__module__ == module
