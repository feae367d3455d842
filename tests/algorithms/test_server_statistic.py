"""A server statistic used by the clients: agreement with the oracle, and identities."""

import numpy as np
import pytest

from tests.helpers import harness, shared_runs
from tests.oracle import ORACLES, base_optimizers
from tests.oracle.problem import g
from tff_momentum.schedules import exponential

LR = {"client_learning_rate": 0.1}
BY_EXAMPLES = {"client_weighting": "num_examples"}


def expected(name, *, cohorts=harness.COHORTS, work=shared_runs.WORK, **hyperparameters):
  return ORACLES[name](harness.oracle_problem(**dict(work)), cohorts, **hyperparameters)


@pytest.mark.parametrize("optimizer", shared_runs.BASES)
@pytest.mark.parametrize("name", ["mimexlite", "fedgbo", "mfl"])
def test_agrees_with_the_oracle_for_every_base_optimizer(name, optimizer):
  run = shared_runs.run(name, optimizer=optimizer, **LR)
  harness.assert_same_models(run.x, expected(name, optimizer=shared_runs.BASES[optimizer], **LR).x)


CASES = {
  "mime_mvr": ("mime_mvr", {**LR, "a": 0.3}),
  "fedcm": ("fedcm", {**LR, "alpha": 0.3, "server_learning_rate": 0.8}),
  "fedadc": ("fedadc", {**LR, "beta": 0.8, "beta_l": 0.5, "server_learning_rate": 0.8}),
  "fedadc, look-ahead": ("fedadc", {**LR, "beta": 0.8, "beta_l": 0.5, "nesterov": True}),
  "mime_mvr, by examples": ("mime_mvr", {**LR, **BY_EXAMPLES, "a": 0.3}),
  "fedcm, by examples": ("fedcm", {**LR, **BY_EXAMPLES, "alpha": 0.3}),
}


@pytest.mark.parametrize("case", CASES)
def test_agrees_with_the_oracle(case):
  name, hyperparameters = CASES[case]
  run = shared_runs.run(name, **hyperparameters)
  harness.assert_same_models(run.x, expected(name, **hyperparameters).x)


SCHEDULED = {
  "fedgbo": ({"optimizer": "sgdm(0.8)"}, {"optimizer": base_optimizers.sgdm(0.8)}),
  "fedcm": ({"alpha": 0.3}, {"alpha": 0.3}),
  "fedadc": ({"beta": 0.8, "beta_l": 0.5}, {"beta": 0.8, "beta_l": 0.5}),
}


@pytest.mark.parametrize("name", SCHEDULED)
def test_statistics_divide_by_the_rate_of_their_own_round(name):
  """Also weighted by examples, where FedGBO's E[K_i] is a weighted mean."""
  ours, theirs = SCHEDULED[name]
  run = shared_runs.run(
    name, client_learning_rate=exponential(0.2, decay=0.5), **BY_EXAMPLES, **ours
  )
  oracle = expected(name, client_learning_rate=lambda t: 0.2 * 0.5**t, **BY_EXAMPLES, **theirs)
  harness.assert_same_models(run.x, oracle.x)


@pytest.mark.parametrize("name", SCHEDULED)
def test_a_rate_that_reaches_zero_leaves_no_nan(name):
  run = shared_runs.run(name, client_learning_rate="cosine(0.1, rounds=1)", **SCHEDULED[name][0])
  assert np.isfinite(run.x).all()
  assert not np.array_equal(run.x[0], harness.flatten(harness.initial_weights()))


# Identities.

AVERAGING_TWINS = {
  "fedgbo(sgd)": ("fedgbo", {"optimizer": "sgd"}),
  "fedgbo(sgdm 0)": ("fedgbo", {"optimizer": "sgdm(0.0, dampened=True)"}),
  "mimelite(sgd)": ("mimelite", {"optimizer": "sgd"}),
  "mimexlite(sgd)": ("mimexlite", {"optimizer": "sgd"}),
  "mfl(sgd)": ("mfl", {"optimizer": "sgd"}),
  "mfl(sgdm 0)": ("mfl", {"optimizer": "sgdm(0.0, dampened=True)"}),
  "mime_mvr(1)": ("mime_mvr", {"a": 1.0}),
  "fedcm(1)": ("fedcm", {"alpha": 1.0}),
}


@pytest.mark.parametrize("case", AVERAGING_TWINS)
def test_without_its_statistic_an_algorithm_is_fedavg(case):
  name, hyperparameters = AVERAGING_TWINS[case]
  shared_runs.assert_same(
    shared_runs.run(name, **hyperparameters, **LR), shared_runs.run("fedavg", **LR)
  )


def test_ghbm_without_momentum_is_fedavg_by_examples():
  shared_runs.assert_same(
    shared_runs.run("ghbm", beta=0.0, tau=2, **LR), shared_runs.run("fedavg", **BY_EXAMPLES, **LR)
  )


@pytest.mark.parametrize("nesterov", [False, True])
def test_fedadc_without_local_momentum_is_fedavgm(nesterov):
  rates = {"server_learning_rate": 0.7, **LR}
  ours = shared_runs.run("fedadc", beta=0.7, beta_l=0.0, nesterov=nesterov, **rates)
  shared_runs.assert_same(ours, shared_runs.run("fedavgm", beta=0.7, **rates))


def test_fedadc_with_one_step_is_fedavgm_whatever_the_clients_share():
  rates = {"server_learning_rate": 0.7, "work": shared_runs.ONE_STEP, **LR}
  right = shared_runs.run("fedavgm", beta=0.7, **rates)
  shared_runs.assert_same(shared_runs.run("fedadc", beta=0.7, beta_l=0.5, **rates), right)


@pytest.mark.parametrize("optimizer", shared_runs.BASES)
def test_mime_with_one_step_and_everyone_is_fedsgd(optimizer):
  both = {"optimizer": optimizer, "cohorts": shared_runs.EVERYONE}
  server = shared_runs.run("fedsgd", server_learning_rate=0.1, **both)
  shared_runs.assert_same(shared_runs.run("mime", work=shared_runs.ONE_STEP, **LR, **both), server)


def test_mime_by_examples_is_centralised_momentum_on_the_pooled_loss():
  problem = harness.oracle_problem(**dict(shared_runs.ONE_STEP))
  pooled = tuple(
    np.concatenate([b[part] for client in problem.clients for b in client]) for part in (0, 1)
  )
  x, m, points = problem.x0, 0.0, []
  for _ in shared_runs.EVERYONE:
    m = 0.8 * m + g(problem, x, pooled)
    x = x - 0.1 * m
    points.append(x)
  run = shared_runs.run(
    "mime",
    optimizer="sgdm(0.8)",
    work=shared_runs.ONE_STEP,
    cohorts=shared_runs.EVERYONE,
    **LR,
    **BY_EXAMPLES,
  )
  harness.assert_same_models(run.x, points)


def test_mime_mvr_asks_for_a_gradient_once_more_in_the_first_round():
  process = shared_runs.process("mime_mvr", **CASES["mime_mvr"][1])
  x = 4 * process.model.num_parameters
  assert [process.bytes_down(t) // x for t in range(3)] == [4, 3, 3]
  assert [process.bytes_up(t) // x for t in range(3)] == [4, 3, 3]
