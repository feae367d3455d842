"""The contract that every algorithm must meet; the suite makes no exception by name.

It covers every entry of `ALGORITHMS`. If a new builder requires a parameter that no other has, add an example
value to `contract_problem.EXAMPLES`.
"""

import ast
import inspect
import pathlib
import types
import typing

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import contract_problem as problem
from tests.helpers import harness, shared_runs
from tff_momentum import algorithms
from tff_momentum.registry import ALGORITHMS
from tff_momentum.simulation import loop, participation

FOLDER = pathlib.Path(algorithms.__file__).parent
every_algorithm = pytest.mark.parametrize("name", ALGORITHMS)


def same_bits(left, right) -> bool:
  tf.nest.assert_same_structure(left, right)
  pairs = zip(*(tf.nest.flatten(problem.as_arrays(s)) for s in (left, right)), strict=True)
  return all(a.dtype == b.dtype and a.tobytes() == b.tobytes() for a, b in pairs)


def kinds(structure) -> list:
  return [(a.shape, a.dtype) for a in tf.nest.flatten(problem.as_arrays(structure))]


@every_algorithm
def test_types_are_stable_over_the_rounds(name):
  process, whole = problem.history(name)[:2]
  after = process.next.type_signature.result
  assert process.initialize.type_signature.result.is_equivalent_to(after.state)
  assert process.client_state_type.is_equivalent_to(after.clients.member)

  start = process.initialize()
  tf.nest.assert_same_structure(start, whole.states[-1])
  assert all(kinds(state) == kinds(start) for state in whole.states)
  fresh = kinds(process.initial_client_state([1, 2]))
  assert all(kinds(state) == fresh for state in whole.clients.values())

  exchange = process.algorithm.exchanges[0]
  types_of_it = (process.first_round_exchanges or process.exchanges)[0]
  for t, state in enumerate([start, *whole.states[:2]]):
    message = exchange.message(state.server, tf.constant(t))
    specs = tf.nest.map_structure(tf.type_spec_from_value, message)
    assert exchange.download_bytes(specs) == types_of_it.bytes_down


@every_algorithm
def test_the_same_seed_gives_the_same_bits(name):
  history = problem.history(name)
  assert same_bits(history.again.states, history.whole.states[:3])
  assert same_bits(history.again.metrics, history.whole.metrics[:3])


@every_algorithm
def test_resuming_equals_never_stopping(name):
  history = problem.history(name)
  assert same_bits(history.resumed.states, history.whole.states[10:13])
  assert [int(state.round) for state in history.resumed.states] == [11, 12, 13]


@every_algorithm
def test_clients_without_examples_change_nothing(name):
  history = problem.history(name)
  for a, b in zip(history.beside.states, history.whole.states, strict=False):
    for left, right in zip(tf.nest.flatten(a), tf.nest.flatten(b), strict=True):
      np.testing.assert_allclose(left, right, rtol=1e-5, atol=1e-6)
  for i in problem.EMPTY:
    fresh = history.process.initial_client_state(harness.client_seed(0, i))
    assert same_bits(history.beside.clients[i], fresh)
  assert [int(m["clients"]) for m in history.beside.metrics] == [2, 2, 2]


@every_algorithm
def test_a_round_of_nobody_only_counts(name):
  history = problem.history(name)
  (state,), before = history.nobody.states, history.whole.states[9]
  assert int(state.round) == int(before.round) + 1
  assert same_bits(state.server, before.server)
  assert float(history.nobody.metrics[0]["update_norm"]) == 0.0


@every_algorithm
def test_the_loss_falls_on_heterogeneous_quadratics(name):
  whole = problem.history(name).whole
  start = problem.loss(harness.flatten(problem.quadratic_model().initial_weights))
  # The mean of the last models, because momentum oscillates around it.
  assert problem.loss(np.mean(whole.x[-10:], axis=0)) < 0.65 * start
  assert np.isfinite([float(m["train"]["loss"]) for m in whole.metrics]).all()


@every_algorithm
def test_every_algorithm_keeps_running_with_drop_outs(name):
  """30% of the clients drop out of cohorts of two; with seed 5 one round loses all its clients."""
  pattern = participation.with_dropouts(participation.uniform(6, 2, 5), 0.3, 5)
  assert any(not pattern(t).clients for t in range(12))
  process = problem.history(name).process
  result = loop.run(
    process, problem.Task(), total_rounds=12, participation=pattern, rounds_per_eval=0
  )
  assert all(np.isfinite(w).all() for w in result.weights)
  assert int(result.state.round) == 12
  skipped = [row for row in result.history if not row["clients"]]
  assert skipped
  assert sum(row["rounds/skipped"] for row in result.history) == len(skipped)
  for row in skipped:
    assert row["update_norm"] == 0
    assert "train/loss" not in row
    assert row["bytes/up"] == 0 < row["bytes/down"]


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
  check_bytes(problem.history(name).process, models)


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
  process = problem.history(name).process
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
