"""The round loop: empty cohorts, clients' own steps, staleness, resuming, and wrong options."""

import functools

import numpy as np
import pytest

from tests.helpers import contract_problem as problem
from tests.helpers import harness
from tests.oracle import ORACLES
from tff_momentum import algorithms
from tff_momentum.client import LocalWork
from tff_momentum.processes.process import build_process
from tff_momentum.simulation import loop, participation

SEED = 3


def run_loop(name, pattern, rounds, *, work=None, **options):
  arguments = {**problem.arguments(name), **options}
  process = build_process(
    algorithms.builder(name)(**arguments), problem.quadratic_model(), work=work or LocalWork()
  )
  return loop.run(
    process, problem.Task(), total_rounds=rounds, participation=pattern, rounds_per_eval=rounds
  )


def test_a_skipped_round_changes_nothing_but_the_count():
  process = build_process(algorithms.fedavgm(client_learning_rate=0.1), problem.quadratic_model())

  def pattern(t):
    return participation.Cohort([] if t == 1 else [0, 1])

  before, after = list(loop.rounds(process, problem.Task(), total_rounds=2, participation=pattern))
  assert int(after.state.round) == 2
  for a, b in zip(process.weights(before.state), process.weights(after.state), strict=True):
    np.testing.assert_array_equal(a, b)


def test_local_ghbm_under_cyclic_participation_is_ghbm():
  pattern = participation.cyclic(6, 2, SEED)
  plain = run_loop("ghbm", pattern, 9, tau=3, beta=0.9).weights
  for scaling in ("elapsed", "participation"):
    local = run_loop(
      "local_ghbm", pattern, 9, beta=0.9, tau_scaling=scaling, participation=1 / 3
    ).weights
    for a, b in zip(plain, local, strict=True):
      np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_steps_are_refused_by_a_process_that_takes_none():
  with pytest.raises(ValueError, match=r"takes the steps of each client.*uneven=True"):
    run_loop("fedavg", lambda t: participation.Cohort([0, 1], steps=[2, 3]), 1)


def test_an_update_that_is_too_old_is_refused():
  with pytest.raises(ValueError, match="max_staleness=2 rounds ago; found one from 3"):
    run_loop(
      "autofedavg", lambda t: participation.Cohort([0, 1], staleness=[0, 3]), 1, max_staleness=2
    )


def test_staleness_is_refused_by_a_process_that_takes_none():
  with pytest.raises(
    ValueError, match=r"takes the staleness of each client.*asynchronous algorithm"
  ):
    run_loop("fedavg", lambda t: participation.Cohort([0, 1], staleness=[0, 1]), 1)


def test_wrong_options_are_refused(fedavg):
  def refused(reason, **options):
    with pytest.raises(ValueError, match=reason):
      loop.run(fedavg, problem.Task(), **options)

  refused("either clients_per_round or participation", total_rounds=1)
  refused("total_rounds must be", total_rounds=0, clients_per_round=2)
  refused("rounds_per_eval must be", total_rounds=1, clients_per_round=2, rounds_per_eval=-1)
  refused("at most the number of clients, 8; found 9", total_rounds=1, clients_per_round=9)
  done = fedavg.initialize()._replace(round=np.int32(3))
  refused("already reached total_rounds=3", total_rounds=3, clients_per_round=2, state=done)


def test_a_run_in_two_parts_has_the_rows_of_one_run(fedavg):
  options = dict(clients_per_round=2, rounds_per_eval=2, seed=SEED)
  whole = loop.run(fedavg, problem.Task(), total_rounds=5, **options)
  first = loop.run(fedavg, problem.Task(), total_rounds=2, **options)
  rest = loop.run(fedavg, problem.Task(), total_rounds=5, state=first.state, **options)

  def rows(history):
    return [
      {name: value for name, value in row.items() if not name.startswith("seconds/")}
      for row in history
    ]

  assert rows(first.history + rest.history) == rows(whole.history)
  assert [row["round"] for row in whole.history] == [1, 2, 3, 4, 5]
  assert ["eval/loss" in row for row in whole.history] == [False, True, False, True, True]


@pytest.fixture(scope="module")
def fedavg():
  return build_process(algorithms.fedavg(client_learning_rate=0.1), problem.quadratic_model())


# Uneven work.


@functools.cache
def uneven_process(name, **hyperparameters):
  algorithm = algorithms.builder(name)(client_learning_rate=0.1, **hyperparameters)
  return build_process(algorithm, harness.softmax_model(), work=LocalWork(epochs=2, uneven=True))


def uneven_run(name, steps, **hyperparameters):
  return harness.run_process(uneven_process(name, **hyperparameters), steps=steps)


@pytest.mark.parametrize("name", ["scaffold", "mime"])
def test_own_steps_that_are_all_equal_match_the_fixed_number(name):
  more = {"num_clients": 5} if name == "scaffold" else {}
  build = algorithms.builder(name)
  fixed = harness.run_product(build(client_learning_rate=0.1, **more), steps=3)
  told = uneven_run(name, dict.fromkeys(range(5), 3), **more)
  harness.assert_same_models(told.x, fixed.x, 2e-6)
  usual = harness.run_product(build(client_learning_rate=0.1, **more), epochs=2)
  harness.assert_same_models(uneven_run(name, {}, **more).x, usual.x, 2e-6)


def test_uneven_steps_agree_with_the_oracle():
  steps = {0: 5, 1: 1, 2: 4, 3: 2, 4: 3}
  told = uneven_run("fedavg", steps)
  x = harness.oracle_problem().x0
  for t, cohort in enumerate(harness.COHORTS):
    ends = [
      ORACLES["fedavg"](
        harness.oracle_problem(steps=steps[i])._replace(x0=x), [[i]], client_learning_rate=0.1
      ).x[0]
      for i in cohort
      if harness.SIZES[i]
    ]
    x = np.mean(ends, axis=0)
    np.testing.assert_allclose(told.x[t], x, rtol=1e-5, atol=1e-5)
