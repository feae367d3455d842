"""The oracles against each other: stateful clients, and the limits of drift correction."""

import numpy as np
import pytest

from tests.oracle import base_optimizers as base
from tests.oracle import least_squares
from tests.oracle.comparison import COHORTS, LR, assert_same, curved, optimum, run
from tests.oracle.problem import batches, examples, g


@pytest.mark.parametrize("scaling", ["elapsed", "participation"])
def test_local_ghbm_under_cyclic_participation_is_ghbm(scaling):
  cyclic = [[0, 1], [2, 4], [5, 3]] * 3
  both = {"cohorts": cyclic, "beta": 0.9, **LR}
  ours = run("local_ghbm", tau_scaling=scaling, participation=1 / 3, **both)
  assert_same(ours, run("ghbm", tau=3, **both))


def test_fedhbm_by_hand():
  """One client, one batch: y ← y − η_l g + β/(τK)(y − last), skipping two rounds in between."""
  problem = curved(steps=2)._replace(clients=[curved().clients[0], curved().clients[1]])
  idle = run("fedhbm", problem, [[0], [1], [1], [0]], beta=0.5, **LR)
  first, y = run("fedavg", problem, [[0]], **LR).x[0], idle.x[2]
  for b in batches(problem, 0):
    y = y - 0.07 * g(problem, y, b) + 0.5 / (3 * 2) * (y - first)
  np.testing.assert_allclose(idle.x[3], y)
  assert [idle.clients[i][1] for i in (0, 1)] == [4, 3]
  shared = run("fedhbm", problem, [[0]], beta=0.5, first_round="shared", **LR)
  other = run(
    "fedhbm",
    problem,
    [[0]],
    beta=0.5,
    first_round="random",
    random_model=lambda i: problem.x0,
    **LR,
  )
  assert_same(shared, other)
  assert np.abs(shared.x[0] - first).max() > 1e-4


@pytest.mark.parametrize("option", ["I", "II"])
@pytest.mark.parametrize("weighting", ["uniform", "num_examples"])
def test_scaffolds_first_round_is_fedavg_and_alone_it_stays_so(option, weighting):
  both = {"client_weighting": weighting, **LR}
  first = run("scaffold", cohorts=[[0, 1, 2]], option=option, **both)
  assert_same(first, run("fedavg", cohorts=[[0, 1, 2]], **both))
  alone = curved()._replace(clients=[curved().clients[2]])
  ours = run("scaffold", alone, [[0]] * 4, option=option, **both)
  assert_same(ours, run("fedavg", alone, [[0]] * 4, **both))


@pytest.mark.parametrize("weighting", ["uniform", "num_examples"])
def test_scaffolds_c_stays_the_mean_of_all_c_i(weighting):
  ours = run("scaffold", client_weighting=weighting, **LR)
  n = [examples(curved(), i) if weighting == "num_examples" else 1 for i in range(6)]
  mean = sum(n[i] * c_i for i, c_i in ours.clients.items()) / sum(n)
  np.testing.assert_allclose(ours.server["c"], mean)


@pytest.mark.parametrize("weighting", ["uniform", "num_examples"])
def test_feddyns_h_stays_the_mean_of_all_g_i_and_round_one_is_fedprox(weighting):
  ours = run("feddyn", alpha=0.4, client_weighting=weighting, **LR)
  n = [examples(curved(), i) if weighting == "num_examples" else 1 for i in range(6)]
  mean = sum(n[i] * g_i for i, g_i in ours.clients.items()) / sum(n)
  np.testing.assert_allclose(ours.server["h"], mean)
  if weighting == "uniform":
    rate = 1 + 2 / 6  # client 3 of the first cohort has no examples
    prox = run("fedprox", cohorts=COHORTS[:1], mu=0.4, server_learning_rate=rate, **LR)
    np.testing.assert_allclose(ours.x[0], prox.x[0])


def test_adabests_first_round_is_fedavg_with_rate_one_plus_beta_and_it_divides_by_the_gap():
  ours = run("adabest", cohorts=[[0], [1], [1], [0]], mu=0.1, beta=0.6, **LR)
  plain = run("fedavg", cohorts=[[0]], server_learning_rate=1.6, **LR)
  np.testing.assert_allclose(ours.x[0], plain.x[0])
  once = run("adabest", cohorts=[[0]], mu=0.1, beta=0.6, **LR).clients[0][0]
  y = ours.x[2]
  for b in batches(curved(), 0):
    y = y - 0.07 * (g(curved(), y, b) - once)
  np.testing.assert_allclose(ours.clients[0][0], once / 3 + 0.1 * (ours.x[2] - y))
  assert ours.clients[0][1] == 4


def test_fedcomgate_without_compression_is_scaffold_two():
  both = {"server_learning_rate": 0.7, **LR}
  problem = curved(steps=3)
  whole = problem._replace(clients=[client for client in problem.clients if client])
  cohorts = [list(range(len(whole.clients)))] * 5
  assert_same(run("fedcomgate", whole, cohorts, **both), run("scaffold", whole, cohorts, **both))
  first = run("fedcomgate", cohorts=COHORTS[:1], **both)
  assert_same(first, run("fedavg", cohorts=COHORTS[:1], **both))


@pytest.mark.parametrize("name", ["scaffold", "feddyn", "fedcomgate", "mime", "fedglomo", "fedavg"])
@pytest.mark.parametrize("weighting", ["uniform", "num_examples"])
def test_drift_correction_ends_at_the_optimum_of_its_own_weighting(name, weighting):
  """Full batches leave drift as the only error; fedavg does not correct it and ends elsewhere."""
  problem = least_squares(5, (7, 3, 12, 0, 5), batch_size=12, steps=3)
  partial = name in ("scaffold", "feddyn")
  cohorts = [[0, 1, 3], [2, 4], [1, 2]] * 700 if partial else [[0, 1, 2, 4]] * 1500
  extra = {"feddyn": {"alpha": 0.5}, "mime": {"optimizer": base.sgdm(0.5)}}.get(name, {})
  if name == "fedglomo":  # it corrects variance, not drift: one step has none
    problem, extra = problem._replace(steps=1), {"beta": 0.2}
  by_examples = weighting == "num_examples"
  goal = optimum(problem, lambda i: examples(problem, i) if by_examples else 1)
  other = optimum(problem, lambda i: 1 if by_examples else examples(problem, i))
  rates = {"client_learning_rate": 0.05, "client_weighting": weighting}
  x = run(name, problem, cohorts, **extra, **rates).x[-1]
  assert np.linalg.norm(goal - other) > 1e-2
  if name == "fedavg":
    assert np.linalg.norm(x - goal) > 1e-3
  else:
    np.testing.assert_allclose(x, goal, atol=1e-6)


def test_fedcomgate_finds_the_optimum_with_unequal_steps():
  problem = least_squares(5, (7, 3, 12, 5), batch_size=12)
  problem = problem._replace(
    clients=[c * k for c, k in zip(problem.clients, (1, 2, 3, 2), strict=True)]
  )
  x = run("fedcomgate", problem, [[0, 1, 2, 3]] * 2000, client_learning_rate=0.05).x[-1]
  np.testing.assert_allclose(x, optimum(problem, lambda i: 1), atol=1e-6)
