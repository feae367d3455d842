"""The literal ranges agree with what the builders accept."""

import pytest

from tff_momentum import algorithms, optimizers, ranges, schedules
from tff_momentum.describe import EXAMPLES
from tff_momentum.registry import ALGORITHMS

PAIRS = [(algo, name) for algo, info in ALGORITHMS.items() for name in info.hyperparameters]
FACTS = ("num_clients", "total_examples", "participation", "max_staleness")
every_hyperparameter = pytest.mark.parametrize(("algo", "name"), PAIRS)


def build(algo, **given):
  known = ALGORITHMS[algo].hyperparameters
  facts = {name: value for name, value in EXAMPLES.items() if name in known}
  return algorithms.builder(algo)(**{**facts, **given})


def accepted(algo, name, value):
  try:
    build(algo, **{name: value})
  except ValueError as error:
    return str(error)
  return ""


def values(found):
  """Values of a range with whether it holds them: at each bound, and beyond it."""
  step = 1 if found.kind == "whole" else 1e-6
  for bound, value in found.bounds.items():
    outside = -1 if bound in ("above", "at_least") else 1
    yield value, bound in ("at_least", "at_most")
    yield value + outside * step, False
  if found.kind in ("number", "whole"):
    yield "nosuch", False
    yield float("nan"), False
    yield "step(0.5, every=10)", found.schedule
  for name in found.names:
    yield name, found.kind == "choice" or name != "stages_from"
  if found.kind == "boolean":
    yield from ((True, True), (False, True), (1, False))
  if found.kind in ("choice", "call"):
    yield "nosuch", False
  if found.optional:
    yield None, True


@pytest.mark.filterwarnings("ignore:fedhbm with beta=1")
@every_hyperparameter
def test_the_builder_accepts_what_the_range_holds_and_nothing_else(algo, name):
  found = ranges.range_of(algo, name)
  for value, holds in values(found):
    if name in FACTS and (value is None or isinstance(value, str)):
      continue  # run.py fills them in
    if value in ("stages_from", "mvr"):
      continue  # these need arguments
    refused = accepted(algo, name, value)
    assert bool(refused) != holds, (value, refused)
    if found.kind == "choice" and not holds:
      assert all(choice in refused for choice in found.names)


@every_hyperparameter
def test_the_check_without_tensorflow_says_what_the_builder_says(algo, name):
  for value, holds in values(ranges.range_of(algo, name)):
    if name in FACTS or value in ("stages_from", "mvr"):
      continue
    if holds:
      ranges.check(algo, name, value)
    else:
      with pytest.raises(ValueError, match=name) as caught:
        ranges.check(algo, name, value)
      if ranges.range_of(algo, name).kind != "call":
        # The builder may know more: xi of FedASGD has an upper bound that depends on the others.
        assert accepted(algo, name, value).startswith(str(caught.value).partition(";")[0])


@every_hyperparameter
def test_defaults_are_in_their_ranges(algo, name):
  default = ALGORITHMS[algo].hyperparameters[name]
  if name in EXAMPLES:
    default = EXAMPLES[name]
  ranges.check(algo, name, default)


def test_the_names_are_those_of_the_library():
  assert tuple(schedules.SCHEDULES) == ranges.SCHEDULES
  assert tuple(optimizers.OPTIMIZERS) == ranges.OPTIMIZERS
  assert ranges.range_of("my_package.my_module:my_builder", "beta") is None
  used = {name for _, name in PAIRS}
  assert used == set(ranges.RANGES)
  assert set(ranges.OWN) <= set(PAIRS)
