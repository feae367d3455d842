"""The contract that every algorithm must meet; the suite makes no exception by name.

It covers every entry of `ALGORITHMS`, with the checks that `tff_momentum.testing` offers to everyone. If a
new builder requires a parameter that no other has, give `tff_momentum/testing/quadratics.py` an example.
"""

import ast
import inspect
import pathlib
import types
import typing

import pytest

from tests.helpers import contract_problem as problem
from tests.helpers import shared_runs
from tff_momentum import algorithms, testing
from tff_momentum.registry import ALGORITHMS

FOLDER = pathlib.Path(algorithms.__file__).parent
# tests/runtime runs the others: they start processes, or trace every algorithm again.
ELSEWHERE = ("parallel_clients", "tff_worker", "ray", "gpu_audit")
every_algorithm = pytest.mark.parametrize("name", ALGORITHMS)


@pytest.mark.parametrize("check", [check for check in testing.CHECKS if check not in ELSEWHERE])
@every_algorithm
def test_the_contract(name, check):
  testing.run_check(check, algorithms.builder(name))


# Bad values.

UNSIGNED = {"nu"}  # both signs are valid


def kinds_of(annotation) -> set:
  is_union = (
    isinstance(annotation, types.UnionType) or typing.get_origin(annotation) is typing.Union
  )
  return set(typing.get_args(annotation)) if is_union else {annotation}


def bad_values(parameter: str, kind: set, good) -> list:
  """Values of the wrong type, non-finite values, and values on the wrong side of zero."""
  bad = ["nonsense", [0.5], {}]
  if not kind & {int, float}:
    return [*bad, 7.5]
  bad += [float("nan"), float("inf"), float("-inf"), True, 0.5j]
  if type(None) not in kind:
    bad.append(None)
  if float not in kind:
    bad += [2.5, 0]
  if parameter not in UNSIGNED:
    bad.append(-good if good else -1 if float not in kind else -0.5)
  return bad


@every_algorithm
def test_every_bad_value_is_refused_when_the_algorithm_is_built(name):
  builder = algorithms.builder(name)
  hints = typing.get_type_hints(builder)
  good = problem.arguments(name)
  faults = []
  for parameter, p in inspect.signature(builder).parameters.items():
    assert p.kind is inspect.Parameter.KEYWORD_ONLY
    for bad in bad_values(parameter, kinds_of(hints[parameter]), good.get(parameter, p.default)):
      try:
        builder(**{**good, parameter: bad})
        faults.append(f"{parameter}={bad!r} was accepted")
      except ValueError as error:
        if str(error)[-1] not in ".?" or "\n" in str(error):
          faults.append(f"{parameter}={bad!r} gave no one-line sentence: {error}")
      except Exception as error:
        faults.append(f"{parameter}={bad!r} raised {type(error).__name__}: {error}")
  assert not faults


@every_algorithm
def test_every_hyperparameter_is_described(name):
  builder = algorithms.builder(name)
  for parameter in inspect.signature(builder).parameters:
    assert f"    {parameter}: " in builder.__doc__, f"{name} does not describe {parameter}"


# Bytes down and up, counted in models.

MODELS = {
  (1, 1): "fedavg fedavgm fedgm fedprox feddyn adabest local_ghbm fedhbm",
  (2, 1): "ghbm fedcm fedadc fedgbo",
  (2, 2): "scaffold mimelite mfl",
  (4, 2): "mime",
}
WITH_ADAM = {"fedgbo": (3, 1), "mimelite": (3, 2), "mfl": (3, 3)}
SCALARS = 4  # a step count may travel beside the models


@pytest.mark.parametrize(
  ("name", "models"), [(name, models) for models, names in MODELS.items() for name in names.split()]
)
def test_bytes_are_as_documented(name, models):
  check_bytes(problem.compiled(name), models)


@pytest.mark.parametrize("name", WITH_ADAM)
def test_bytes_with_adam_are_as_documented(name):
  process = shared_runs.process(
    name, client_learning_rate=0.1, optimizer="adam(0.9, 0.99, epsilon=0.01)"
  )
  check_bytes(process, WITH_ADAM[name])


def check_bytes(process, models):
  one = 4 * process.model.num_parameters
  for sent, expected in zip((process.bytes_down(1), process.bytes_up(1)), models, strict=True):
    assert 0 <= sent - expected * one <= SCALARS
  assert process.bytes_down(1) == sum(e.bytes_down for e in process.exchanges)
  assert process.bytes_up(1) == sum(e.bytes_up for e in process.exchanges)


@pytest.mark.parametrize(("name", "models"), [("fedglomo", (2, 2)), ("fedcomgate", (2, 1))])
def test_quantised_bytes_are_as_documented(name, models):
  """Uploads are b/32 of a model, one norm for each tensor, and at most one step count."""
  process = problem.compiled(name)
  tensors = process.model.initial_weights
  bits = inspect.signature(algorithms.builder(name)).parameters["bits"].default
  packed = sum(4 + -(-w.size * bits // 8) for w in tensors)
  assert process.bytes_down(1) == models[0] * 4 * process.model.num_parameters
  assert 0 <= process.bytes_up(1) - models[1] * packed <= SCALARS


# The files.


@pytest.mark.parametrize("path", sorted(FOLDER.glob("*.py")), ids=lambda path: path.stem)
def test_an_algorithm_file_is_short_and_knows_no_tff(path):
  text = path.read_text()
  assert len(text.splitlines()) <= 150
  for node in ast.walk(ast.parse(text)):
    if isinstance(node, ast.Import):
      assert not any(alias.name.startswith("tensorflow_federated") for alias in node.names)
    if isinstance(node, ast.ImportFrom):
      assert not (node.module or "").startswith("tensorflow_federated")
