"""The newer oracles: every identity that their sources imply, in float64."""

import numpy as np
import pytest

from tests.oracle import base_optimizers as base
from tests.oracle import least_squares
from tests.oracle.comparison import COHORTS, EVERYONE, LR, assert_differs, assert_same, curved, run
from tests.oracle.local_optimizers import newton_schulz
from tests.oracle.newer import extrapolation
from tests.oracle.problem import batches, g

FIRST = COHORTS[:1]
FEDAVG = {
  "fedacg": {"beta": 0.0, "mu": 0.0},
  "fedexp": {"epsilon": 1e12},
  "fedinit": {"beta": 0.0},
  "fedsam": {"rho": 0.0},
  "diloco": {"inner": "sgd", "server_learning_rate": 1.0, "beta": 0.0},
  "mofedsam": {"rho": 0.0, "alpha": 1.0},
}


@pytest.mark.parametrize("weighting", ["uniform", "num_examples"])
@pytest.mark.parametrize("name", FEDAVG)
def test_without_its_correction_an_algorithm_is_fedavg(name, weighting):
  both = {"client_weighting": weighting, **LR}
  assert_same(run(name, **FEDAVG[name], **both), run("fedavg", **both))


def test_fedacg_sends_fednags_model_and_starts_as_fedprox():
  assert_same(run("fedacg", beta=0.0, mu=0.3, **LR), run("fedprox", mu=0.3, **LR))
  ours = run("fedacg", cohorts=FIRST, beta=0.7, mu=0.3, **LR)
  assert_same(ours, run("fedprox", cohorts=FIRST, mu=0.3, **LR))
  x, m, sent = curved().x0, 0.0, []
  for after in run("fedacg", beta=0.7, mu=0.0, **LR).x:
    m, x = x - after if not np.array_equal(x, after) else m, after
    sent.append(x - 0.7 * m)
  nag = run("fednag", server_learning_rate=1 / 0.3, beta=0.7, **LR)
  np.testing.assert_allclose(sent, nag.x, rtol=1e-9)
  outer = run("diloco", inner="sgd", server_learning_rate=1.0, beta=0.7, **LR)
  assert_same(nag, outer)


@pytest.mark.parametrize("weighting", ["uniform", "num_examples"])
def test_scaffold_m_contains_scaffold_and_fedcm(weighting):
  both = {"client_weighting": weighting, "server_learning_rate": 0.8, **LR}
  assert_same(run("scaffold_m", alpha=1.0, **both), run("scaffold", **both))
  alone = curved()._replace(clients=curved().clients[:1])
  cohorts = [[0]] * 4
  cm = run("fedcm", alone, cohorts, alpha=0.3, **both)
  assert_same(run("scaffold_m", alone, cohorts, alpha=0.3, **both), cm)
  first = run("scaffold_m", cohorts=FIRST, alpha=0.3, **both)
  scaled = {**both, "client_learning_rate": 0.3 * LR["client_learning_rate"]}
  assert_same(first, run("fedavg", cohorts=FIRST, **scaled))


def test_scaffold_ms_c_is_the_mean_of_all_c_i_and_its_fixed_point_is_the_optimum():
  for rounds in range(1, len(COHORTS) + 1):
    ours = run("scaffold_m", cohorts=COHORTS[:rounds], alpha=0.3, **LR)
    everyone = len(curved().clients)
    np.testing.assert_allclose(ours.server["c"], sum(ours.clients.values()) / everyone)
  problem = least_squares(5, (7, 3, 12, 5), batch_size=12, steps=3)
  cohorts = [[0, 1], [2, 3], [1, 2]] * 900
  rates = {"client_learning_rate": 0.05, "alpha": 0.3}
  x = run("scaffold_m", problem, cohorts, **rates).x[-1]
  total = sum(g(problem, x, client[0]) for client in problem.clients)
  assert np.linalg.norm(total) < 1e-8
  cm = run("fedcm", problem, cohorts, **rates).x[-1]
  assert np.linalg.norm(sum(g(problem, cm, client[0]) for client in problem.clients)) > 1e-3


def test_fednova_with_equal_steps_is_the_algorithm_without_it():
  problem = curved(steps=3)
  both = {"client_weighting": "num_examples", "server_learning_rate": 0.8, **LR}
  assert_same(run("fednova", problem, **both), run("fedavg", problem, **both))
  ours = run("fednova", problem, beta_l=0.6, **both)
  assert_same(ours, run("fedavg_lm", problem, beta_l=0.6, **both))
  assert_same(run("fednova", problem, beta=0.7, **both), run("fedavgm", problem, beta=0.7, **both))
  ours = run("fednova", problem, mu=0.4, effective_steps="norm", **both)
  assert_same(ours, run("fedprox", problem, mu=0.4, **both))
  assert_differs(run("fednova", **both), run("fedavg", **both))  # unequal steps


@pytest.mark.parametrize("beta_l", [0.0, 0.6])
def test_fednova_on_linear_losses_weighs_every_client_by_its_examples_alone(beta_l):
  problem = curved(weight_decay=0.0)._replace(gradient=lambda y, b: b[0].mean(axis=0))
  clients = [[client[0]] * k for k, client in zip((3, 2, 5), problem.clients[:3], strict=True)]
  problem, S = problem._replace(clients=clients), [0, 1, 2]
  ours = run("fednova", problem, [S], beta_l=beta_l, client_weighting="uniform", **LR)
  a = []
  for i in S:
    v = total = 0.0
    for _ in batches(problem, i):
      v = beta_l * v + 1
      total += v
    a.append(total)
  mean = np.mean([g(problem, problem.x0, problem.clients[i][0]) for i in S], axis=0)
  np.testing.assert_allclose(ours.x[0], problem.x0 - 0.07 * np.mean(a) * mean)


def test_fedexps_rate():
  alone, same = [[0], [2], [1]], [[0, 1]] * 3
  twins = curved()._replace(clients=[curved().clients[0]] * 2)
  for problem, cohorts in ((None, alone), (twins, same)):
    ours = run("fedexp", problem, cohorts, epsilon=1e-9, **LR)
    assert_same(ours, run("fedavg", problem, cohorts, **LR))
  for S in (2, 3, 8):  # orthogonal Δ_i of one length
    assert np.isclose(extrapolation(4.0, np.full(S, 2.0 / S), 0.0), max(1.0, S / 2))
  assert extrapolation(0.0, np.zeros(3), 0.0) == 1.0
  ours = run("fedexp", cohorts=EVERYONE, epsilon=1e-6, **LR)
  assert max(ours.server["eta"]) > 1.01
  two = run("fedexp", cohorts=EVERYONE, epsilon=1e-6, evaluate="mean_of_two", **LR)
  np.testing.assert_allclose(two.x[0], ours.x[0])
  np.testing.assert_allclose(two.x[1:], (np.array(ours.x[1:]) + ours.x[:-1]) / 2)
  prox = run("fedexp", epsilon=1e12, mu=0.3, **LR)
  assert_same(prox, run("fedprox", mu=0.3, **LR))


def test_fedinit_starts_as_fedavg_and_moves_are_models_when_everyone_takes_part():
  assert_same(run("fedinit", cohorts=FIRST, beta=0.2, **LR), run("fedavg", cohorts=FIRST, **LR))
  everyone = [[0, 1, 2, 4, 5]] * 4
  moves, models = (
    run("fedinit", cohorts=everyone, beta=0.2, aggregate=a, **LR) for a in ("moves", "models")
  )
  assert_same(moves, models)
  assert_differs(moves, run("fedavg", cohorts=everyone, **LR))


def test_relaxed_starts_that_average_models_diverge_above_the_participation():
  problem = least_squares(5, (8,) * 6, batch_size=8, steps=3)
  cohorts = [[t % 6] for t in range(300)]
  rates = {"client_learning_rate": 0.02, "beta": 0.3}
  x = {a: run("fedinit", problem, cohorts, aggregate=a, **rates).x for a in ("moves", "models")}
  assert np.abs(x["moves"][-1]).max() < 10
  assert not np.abs(x["models"][-1]).max() < 1e6


def test_sharpness_aware_identities():
  assert_same(run("mofedsam", rho=0.0, alpha=0.3, **LR), run("fedcm", alpha=0.3, **LR))
  assert_same(run("mofedsam", rho=0.2, alpha=1.0, **LR), run("fedsam", rho=0.2, **LR))
  ours = run("mofedsam", cohorts=FIRST, rho=0.2, alpha=0.3, **LR)
  assert_same(ours, run("fedsam", cohorts=FIRST, rho=0.2, client_learning_rate=0.3 * 0.07))
  assert_differs(run("fedsam", rho=0.2, **LR), run("fedavg", **LR))


@pytest.mark.parametrize("weighting", ["uniform", "num_examples"])
def test_fedspeed_without_its_climb_is_feddyn(weighting):
  both = {"alpha": 0.4, "client_weighting": weighting, **LR}
  dyn = run("feddyn", **both)
  assert_same(run("fedspeed", rho=0.0, **both), dyn)
  assert_same(run("fedspeed", rho=0.3, mix=0.0, **both), dyn)


def test_fedspeeds_duals():
  both = {"alpha": 0.4, "rho": 0.2, **LR}
  problem = curved()._replace(clients=[client for client in curved().clients if client])
  cohorts = [list(range(len(problem.clients)))] * 4
  everyone, cohort = (
    run("fedspeed", problem, cohorts, duals=duals, **both) for duals in ("everyone", "cohort")
  )
  assert_same(everyone, cohort)
  first = run("fedspeed", cohorts=FIRST, alpha=0.4, rho=0.0, duals="cohort", **LR)
  assert_same(first, run("fedprox", cohorts=FIRST, mu=0.4, server_learning_rate=2.0, **LR))


def test_fedlion_alone_is_centralised_lion():
  problem, cohorts = curved(), [[0]] * 4
  ours = run("fedlion", problem, cohorts, beta1=0.8, beta2=0.9, decoupled_weight_decay=0.1, **LR)
  y, m = problem.x0, 0.0
  for after in ours.x:
    for b in batches(problem, 0):
      gradient = g(problem, y, b)
      y = y - 0.07 * (np.sign(0.8 * m + 0.2 * gradient) + 0.1 * y)
      m = 0.9 * m + 0.1 * gradient
    np.testing.assert_allclose(after, y)
  first = run("fedlion", problem, [[0]], **LR).x[0]
  steps = (problem.x0 - first) / 0.07
  np.testing.assert_allclose(steps, np.round(steps), atol=1e-9)
  assert np.abs(steps).max() <= len(batches(problem, 0))


def test_fedlion_without_the_sign_is_mfl(monkeypatch):
  momentum = base.sgdm(0.8, dampened=True)
  plain = run("mfl", optimizer=momentum, **LR)
  monkeypatch.setattr(np, "sign", lambda v: v)
  assert_same(run("fedlion", beta1=0.8, beta2=0.8, **LR), plain)


def test_diloco_with_sgd_is_fednag():
  ours = run("diloco", inner="sgd", server_learning_rate=0.7, beta=0.6, **LR)
  assert_same(ours, run("fednag", server_learning_rate=0.7 / 0.4, beta=0.6, **LR))


def test_fedadamw_and_fedmuon_contain_diloco():
  inner = {"beta1": 0.8, "beta2": 0.9, "epsilon": 1e-3, "decoupled_weight_decay": 0.05, **LR}
  outer = {"server_learning_rate": 1.0, "beta": 0.0}
  first = run("diloco", cohorts=FIRST, **inner, **outer)
  assert_same(run("fedadamw", cohorts=FIRST, **inner), first)
  alone = {"cohorts": [[0]] * 4, **inner, "beta1": 0.0}
  ours = run("fedadamw", gamma=0.0, second_moment="full", **alone)
  assert_same(ours, run("diloco", **alone, **outer))
  vectors = run("fedmuon", gamma=0.0, beta=0.9, **inner)
  assert_same(vectors, run("diloco", inner_state="reset", **inner, **outer))


def test_newton_schulz_commutes_with_transposing_and_is_nearly_orthogonal():
  U = np.random.default_rng(0).normal(size=(3, 5))
  np.testing.assert_allclose(newton_schulz(U.T), newton_schulz(U).T)
  assert np.abs(np.linalg.svd(newton_schulz(U))[1] - 1).max() < 0.4
