"""The oracles against each other: equivalents of FedAvg, server steps, closed forms, common behaviour."""

import inspect
from itertools import pairwise

import numpy as np
import pytest

from tests.oracle import ORACLES, least_squares, max_entropy_penalty, published, stages_from
from tests.oracle import base_optimizers as base
from tests.oracle.comparison import (
  BASES,
  COHORTS,
  LR,
  assert_differs,
  assert_same,
  curved,
  optimum,
  run,
)
from tests.oracle.problem import G

FEDAVG_TWINS = {
  "fedprox": {"mu": 0.0},
  "fedmax": {},
  "fedavgm": {"beta": 0.0},
  "fedavg_lm": {"beta_l": 0.0},
  "fedavg_glm": {"beta": 0.0, "beta_l": 0.0},
  "fedgm": {"beta": 0.7, "nu": 0.0},
  "fedcm": {"alpha": 1.0},
  "ghbm": {"beta": 0.0, "tau": 2},
  "local_ghbm": {"beta": 0.0},
  "fedhbm": {"beta": 0.0, "first_round": "shared"},
  "fedpaq": {},
  "fedpaq_lm": {"beta_l": 0.0},
  "fedpaq_glm": {"beta": 0.0, "beta_l": 0.0},
  "fedadc": {"beta": 0.0, "beta_l": 0.0, "nesterov": True},
}


@pytest.mark.parametrize("weighting", ["uniform", "num_examples"])
@pytest.mark.parametrize("name", FEDAVG_TWINS)
def test_without_its_correction_an_algorithm_is_fedavg_at_any_server_rate(name, weighting):
  rates = {"server_learning_rate": 0.8, "client_weighting": weighting, **LR}
  assert_same(run(name, **FEDAVG_TWINS[name], **rates), run("fedavg", **rates))


AVERAGING_TWINS = {
  "mimelite": {"optimizer": base.sgd()},
  "mimexlite": {"optimizer": base.sgdm(0.0)},
  "mime_mvr": {"a": 1.0},
  "fedgbo": {"optimizer": base.sgdm(0.0, dampened=True)},
  "mfl": {"optimizer": base.sgdm(0.0)},
}


@pytest.mark.parametrize("weighting", ["uniform", "num_examples"])
@pytest.mark.parametrize("name", AVERAGING_TWINS)
def test_an_algorithm_that_averages_models_is_fedavg_with_plain_sgd(name, weighting):
  rates = {"client_weighting": weighting, **LR}
  assert_same(run(name, **AVERAGING_TWINS[name], **rates), run("fedavg", **rates))
  if name in ("fedgbo", "mfl"):
    assert_same(run(name, optimizer=base.sgd(), **rates), run("fedavg", **rates))


def test_general_momentum_contains_its_special_cases():
  single = run("fedgm", beta=0.7, nu=0.4, server_learning_rate=0.9, **LR)
  assert_same(run("fedgm", stages=[(5, 0.9, 0.7, 0.4)], **LR), single)
  assert_same(
    run("fedgm", beta=0.7, nu=1.0, server_learning_rate=0.9, **LR),
    run("fedavgm", beta=0.7, server_learning_rate=0.9 * 0.3, **LR),
  )
  assert_same(run("fednag", beta=0.7, **LR), run("fedgm", beta=0.7, nu=0.7, **LR))
  assert_differs(single, run("fedgm", stages=[(1, 0.9, 0.7, 0.4), (9, 0.5, 0.8, 0.4)], **LR))


def test_stages_give_the_papers_143_and_429_and_keep_w1_and_w2():
  stages = stages_from(1000, 3, eta1=2.0, beta1=0.7, nu=0.9)
  assert np.cumsum([length for length, *_ in stages]).tolist() == [143, 429, 1000]
  assert [eta for _, eta, _, _ in stages] == [2.0, 1.0, 0.5]
  np.testing.assert_allclose([e * b * n / (1 - b) for _, e, b, n in stages], 2 * 0.7 * 0.9 / 0.3)
  np.testing.assert_allclose([length * eta for length, eta, _, _ in stages], 286, atol=1)
  assert all(b1 < b2 < 1 for (_, _, b1, _), (_, _, b2, _) in pairwise(stages))
  assert [length for length, *_ in stages_from(40, 2, eta1=0.3, beta1=0.5, nu=1.0, drop=3)] == [
    10,
    30,
  ]


SCHEMES = {
  "fedsnv": (published.snv, {"alpha": 0.11, "beta1": 0.6, "beta2": 0.35}),
  "fedpid": (published.pid, {"k_p": -0.02, "k_i": 0.09, "k_d": 0.03}),
  "fedasgd": (published.asgd, {"delta": 0.05, "kappa": 9.0, "xi": 2.5, "epsilon": 0.7}),
  "fedtm": (published.triple_momentum, {"L": 9.0, "kappa": 20.0}),
}


@pytest.mark.parametrize("name", SCHEMES)
def test_a_scheme_follows_its_published_recursion(name):
  """One client, one full batch, one step with η_l = 1: Δ is the gradient."""
  problem = curved(epochs=1)._replace(clients=[[curved().clients[0][0]]])
  recursion, parameters = SCHEMES[name]
  constants = dict(parameters)
  if name == "fedpid":
    constants["beta"] = constants["k_d"] / (constants["k_d"] - constants["k_p"])
  points = recursion(lambda x: G(problem, 0, x), problem.x0, 20, **constants)
  ours = run(name, problem, [[0]] * 20, client_learning_rate=1.0, **parameters)
  np.testing.assert_allclose(ours.x, points, rtol=1e-9, atol=1e-10)
  assert np.linalg.norm(points[-1] - points[0]) > 0.05


def test_triple_momentum_reaches_the_optimum_of_a_quadratic():
  problem = least_squares(3, (30,), batch_size=30)
  curvature = np.linalg.eigvalsh(problem.clients[0][0][0].T @ problem.clients[0][0][0] / 30)
  constants = {"L": curvature[-1], "kappa": curvature[-1] / curvature[0]}
  x = run("fedtm", problem, [[0]] * 150, client_learning_rate=1.0, **constants).x[-1]
  np.testing.assert_allclose(x, optimum(problem, lambda i: 1), atol=1e-10)


@pytest.mark.parametrize("name", ["fedadagrad", "fedadam", "fedyogi"])
def test_reddis_moments(name):
  rates = {"client_learning_rate": 0.05, "server_learning_rate": 0.02, "epsilon": 0.05}
  ours = run(name, beta1=0.6, **rates)
  x, m, v = curved().x0, np.zeros(4), np.full(4, 0.05**2)
  for t, after in enumerate(ours.x):
    if t == 2:
      assert np.array_equal(after, x)
      continue
    plain = run("fedavg", curved()._replace(x0=x), [COHORTS[t]], client_learning_rate=0.05)
    delta = x - plain.x[0]
    m = 0.6 * m + 0.4 * delta
    v = {
      "fedadagrad": v + delta**2,
      "fedadam": 0.99 * v + 0.01 * delta**2,
      "fedyogi": np.where(v > delta**2, v - 0.01 * delta**2, v + 0.01 * delta**2),
    }[name]
    x = x - 0.02 * m / (np.sqrt(v) + 0.05)
    np.testing.assert_allclose(after, x)
  np.testing.assert_allclose(ours.server["v"], v)


def test_fedrmsprop_is_fedadam_without_momentum():
  rates = {"beta2": 0.95, "epsilon": 0.05, "server_learning_rate": 0.02, **LR}
  assert_same(run("fedrmsprop", **rates), run("fedadam", beta1=0.0, **rates))


def test_local_steps_on_a_quadratic_have_a_closed_form():
  """y_K = x* + (I − η_l(H + μI))^K (x − x*), x* where the regularised gradient vanishes."""
  problem = least_squares(2, (9,), batch_size=9, steps=5)
  rows, targets = problem.clients[0][0]
  H, slope = rows.T @ rows / 9, rows.T @ targets / 9
  for name, mu, decay in (("fedavg", 0.0, 0.0), ("fedavg", 0.0, 0.3), ("fedprox", 0.7, 0.0)):
    extra = {"mu": mu} if name == "fedprox" else {}
    M = H + (mu + decay) * np.eye(4)
    fixed = np.linalg.solve(M, slope + mu * problem.x0)
    closed = fixed + np.linalg.matrix_power(np.eye(4) - 0.07 * M, 5) @ (problem.x0 - fixed)
    ours = run(name, problem._replace(weight_decay=decay), [[0]], **extra, **LR)
    np.testing.assert_allclose(ours.x[0], closed)


@pytest.mark.parametrize("name", ["fedavg", "fedprox", "fedavg_lm", "fedlomo", "fedhbm"])
def test_a_common_hessian_makes_assumption_four_hold_with_alpha_zero(name):
  random = np.random.default_rng(0)
  rows = random.normal(size=(6, 4))
  problem = least_squares(0, (6,) * 4)._replace(
    clients=[[(rows, random.normal(size=6))] for _ in range(4)], epochs=3
  )
  extra = {"fedprox": {"mu": 0.3}, "fedavg_lm": {"beta_l": 0.5}}.get(name, {})
  y = [run(name, problem, [[i]], **extra, **LR).x[0] for i in range(4)]
  e = [G(problem, i, y[i]) - G(problem, i, np.mean(y, axis=0)) for i in range(4)]
  assert np.linalg.norm(sum(e)) < 1e-12 < 1e-3 < np.linalg.norm(e[0])


def test_max_entropy_penalty_and_its_gradient():
  a, h = np.random.default_rng(0).normal(size=(3, 5)), 1e-6
  p = np.exp(a) / np.exp(a).sum(axis=1, keepdims=True)
  kl = {"forward": p * np.log(p * 5), "reverse": -np.log(p * 5) / 5}
  for direction, terms in kl.items():
    value, gradient = max_entropy_penalty(a, direction)
    np.testing.assert_allclose(value, terms.sum(axis=1).mean())
    for k in np.ndindex(a.shape):
      step = np.zeros_like(a)
      step[k] = h
      up, down = (max_entropy_penalty(a + sign * step, direction)[0] for sign in (1, -1))
      np.testing.assert_allclose(gradient[k], (up - down) / (2 * h), atol=1e-8)
    np.testing.assert_allclose(max_entropy_penalty(np.ones((2, 5)), direction)[0], 0, atol=1e-12)


def test_the_weighting_defaults_are_the_papers():
  by_examples = {"ghbm", "local_ghbm", "fedhbm", "fednova"}
  for name, oracle in ORACLES.items():
    default = inspect.signature(oracle).parameters.get("client_weighting")
    if default is not None:
      assert default.default == ("num_examples" if name in by_examples else "uniform"), name


HYPERPARAMETERS = {
  "fedsgd": {"optimizer": BASES["adam"], "server_learning_rate": 0.05},
  **{name: {**LR, **extra} for name, extra in FEDAVG_TWINS.items()},
  **{name: {**LR, **extra} for name, extra in AVERAGING_TWINS.items()},
  **{name: {**LR, **constants} for name, (_, constants) in SCHEMES.items()},
  **dict.fromkeys(("fedavg", "fedadagrad", "fedadam", "fedyogi", "fedrmsprop"), LR),
  **dict.fromkeys(("scaffold", "fedcomgate", "fedlomo"), LR),
  "fednag": {**LR, "beta": 0.5},
  "mime": {**LR, "optimizer": BASES["adam"]},
  "feddyn": {**LR, "alpha": 0.5},
  "adabest": {**LR, "mu": 0.1, "beta": 0.5},
  "fedglomo": {**LR, "beta": 0.5},
  "fedacg": {**LR, "beta": 0.5, "mu": 0.1},
  "scaffold_m": {**LR, "alpha": 0.3},
  "fedsam": {**LR, "rho": 0.1},
  "mofedsam": {**LR, "rho": 0.1, "alpha": 0.3},
  "fedspeed": {**LR, "rho": 0.1, "alpha": 0.5},
  "fedinit": {**LR, "beta": 0.1},
  **dict.fromkeys(("fednova", "fedexp", "fedlion", "diloco", "fedadamw", "fedmuon"), LR),
}


@pytest.mark.parametrize("name", [name for name in ORACLES if not name.startswith("auto")])
def test_a_client_without_examples_changes_nothing(name):
  without = [[i for i in cohort if i != 3] for cohort in COHORTS]
  left, right = (run(name, cohorts=c, **HYPERPARAMETERS[name]) for c in (COHORTS, without))
  assert len(left.x) == len(COHORTS)
  assert np.array_equal(left.x, right.x)
  assert np.array_equal(left.x[1], left.x[2])
  assert 3 not in left.clients
  assert left.clients.keys() == right.clients.keys()
