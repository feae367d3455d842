"""The kit's own interface: names, values that it fills in, messages about mistakes in calling it."""

import subprocess
import sys

import numpy as np
import pytest

from tests import ROOT
from tests.oracle import ORACLES
from tff_momentum import algorithms, testing
from tff_momentum.client import LocalWork
from tff_momentum.testing import quadratics, suite
from tff_momentum.testing.candidate import Candidate
from tff_momentum.testing.runs import first_difference


def test_every_name_has_a_function():
  assert tuple(suite.FUNCTIONS) == testing.CHECKS
  assert all(getattr(testing, name) is not None for name in testing.__all__)


def test_the_package_and_the_plugin_load_without_tensorflow_and_the_package_without_pytest():
  code = (
    "import sys, tff_momentum.testing as t; assert 'pytest' not in sys.modules; dir(t)\n"
    "import tff_momentum.testing.pytest_plugin; print('tensorflow' in sys.modules)"
  )
  done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
  assert done.stdout.strip() == "False", done.stderr


def test_values_that_describe_the_problem_are_filled_in():
  found = Candidate(algorithms.scaffold, {"client_learning_rate": 0.1})
  assert found.hyperparameters == {
    "num_clients": 8,
    "total_examples": 27,
    "client_learning_rate": 0.1,
  }


def test_a_missing_value_is_asked_for():
  def builder(*, client_learning_rate, rho):
    raise AssertionError

  said = (
    r"value for builder's parameter rho, which has no default; found none: .*\(builder, rho=...\)"
  )
  with pytest.raises(ValueError, match=said):
    testing.check_algorithm(builder)


def test_an_unknown_check_is_refused():
  for call in (
    lambda: testing.check_algorithm(algorithms.fedavg, without=["rays"]),
    lambda: testing.run_check("rays", algorithms.fedavg),
  ):
    with pytest.raises(ValueError, match=r"Expected one of the checks types, .*; found 'rays'"):
      call()


def test_something_else_than_an_algorithm_is_refused():
  with pytest.raises(testing.ContractError, match=r"return a tff_momentum.Algorithm; found dict"):
    testing.check_algorithm(lambda *, client_learning_rate: {})


def test_a_skipped_check_is_reported_with_its_reason():
  def local(*, client_learning_rate):
    return algorithms.fedavg(client_learning_rate=client_learning_rate)

  others = [name for name in testing.CHECKS if name not in ("bytes", "gpu_audit")]
  report = testing.check_algorithm(local, without=others)
  assert report.passed == ("bytes",)
  assert "gpu_audit was skipped: the audit runs in a process of its own" in str(report)


# The oracle harness.


def test_an_oracle_that_agrees():
  """With other work than the default, and a list of models in place of a trace."""
  testing.compare_with_oracle(
    algorithms.fedavgm,
    lambda *given, **rest: ORACLES["fedavgm"](*given, **rest).x,
    work=LocalWork(steps=3, clip_norm=0.5),
    client_learning_rate=0.1,
    beta=0.5,
  )


@pytest.mark.parametrize(
  ("change", "said"),
  [
    (lambda x0, x: [2 * x0 - x[0], *x[1:]], "after round 0. .* opposite directions: .* wrong sign"),
    (lambda x0, x: [x0 + 2 * (x[0] - x0), *x[1:]], "same direction, .* is 0.5 times as long"),
    (lambda x0, x: [x[0], x[1] + np.eye(1, 16)[0], x[2]], "after round 1. .* kept between rounds"),
    (lambda x0, x: x[:2], "a model for each of 3 rounds; found 2"),
    (lambda x0, x: [x[0][1:], *x[1:]], r"flat model of 16 weights .*; found shape \(15,\)"),
  ],
)
def test_an_oracle_that_differs(change, said):
  def oracle(problem, cohorts, **hyperparameters):
    return change(problem.x0, ORACLES["fedavg"](problem, cohorts, **hyperparameters).x)

  with pytest.raises(testing.ContractError, match=said):
    testing.compare_with_oracle(algorithms.fedavg, oracle, client_learning_rate=0.1)


# Differences.


def test_the_first_difference_is_named():
  left = {"a": (np.zeros(2, np.float32), np.float32(1)), "b": np.int32(3)}
  assert first_difference(left, left) is None
  other = {"a": (np.zeros(2, np.float32), np.float32(1.5)), "b": np.int32(4)}
  assert first_difference(left, other) == "a/1 differs by 0.5"
  assert first_difference(left, other, tolerance=1.0) is None
  kind = {**left, "b": np.float32(3)}
  assert first_difference(left, kind) == "b is int32[] in one and float32[] in the other"


def test_one_round_of_the_dropouts_loses_all_its_clients():
  """Otherwise the check would not look at what it is for."""
  from tff_momentum.simulation import participation

  pattern = participation.with_dropouts(participation.uniform(6, 2, 5), 0.3, 5)
  assert any(not pattern(t).clients for t in range(12))
  assert len(quadratics.SIZES) > 6
