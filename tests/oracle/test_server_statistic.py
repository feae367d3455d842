"""The oracles against each other: base optimizers and server statistics."""

import numpy as np
import pytest

from tests.oracle import base_optimizers as base
from tests.oracle.comparison import (
  BASES,
  EVERYONE,
  LR,
  assert_differs,
  assert_same,
  curved,
  one_batch,
  run,
)
from tests.oracle.problem import G, batches, g


@pytest.mark.parametrize("name", BASES)
def test_the_inverse_recovers_the_gradient_from_any_statistics(name):
  random, optimizer = np.random.default_rng(0), BASES[name]
  for _ in range(20):
    s = {k: random.uniform(0.1, 3, size=5) for k in optimizer.start(np.zeros(5))}
    gradient = random.normal(size=5)
    np.testing.assert_allclose(optimizer.inverse(optimizer.step(gradient, s), s), gradient)


def test_the_table_of_base_optimizers_with_numbers():
  """g = 2, m = 10, v = 9, ε = 1, every β = 0.75 (Adam's β₂ = 0.5): exact in binary."""
  two, s = np.array([2.0]), {"m": np.array([10.0]), "v": np.array([9.0])}
  table = {  # U, m and v after V, MFL's direction after V
    "sgd": (base.sgd(), 2, None, None, 2),
    "sgdm": (base.sgdm(0.75), 9.5, 9.5, None, 9.5),
    "dampened": (base.sgdm(0.75, dampened=True), 8, 8, None, 8),
    "rmsprop": (base.rmsprop(0.75, 1.0), 2 / 4, None, 7.75, 2 / (7.75**0.5 + 1)),
    "adagrad": (base.adagrad(1.0), 2 / 4, None, 13, 2 / (13**0.5 + 1)),
    "adam": (base.adam(0.75, 0.5, 1.0), 8 / 4, 8, 6.5, 8 / (6.5**0.5 + 1)),
  }
  for name, (optimizer, U, m, v, moving) in table.items():
    start = optimizer.start(two)
    letters = {letter: s[letter] for letter in start}
    tracked = optimizer.track(two, letters)
    assert optimizer.step(two, letters) == U, name
    assert {k: float(a[0]) for k, a in tracked.items()} == {
      k: a for k, a in (("m", m), ("v", v)) if a is not None
    }, name
    np.testing.assert_allclose(optimizer.moving(two, tracked), moving)
    assert all(start[letter] == {"m": 0, "v": 1}[letter] for letter in start)


def test_the_base_optimizer_divides_by_the_old_v_and_reddis_by_the_new_one():
  problem = curved(epochs=1)._replace(clients=[[curved().clients[0][0]]])
  slope = G(problem, 0, problem.x0)
  theirs = run("fedsgd", problem, [[0]], optimizer=base.adam(0.0, 0.9, epsilon=0.1, v0=0.01))
  np.testing.assert_allclose(problem.x0 - theirs.x[0], slope / (0.1 + 0.1))
  reddi = {"beta1": 0.0, "beta2": 0.9, "epsilon": 0.1}
  server = run("fedadam", problem, [[0]], client_learning_rate=1.0, **reddi)
  v = 0.9 * 0.1**2 + 0.1 * slope**2
  np.testing.assert_allclose(problem.x0 - server.x[0], slope / (np.sqrt(v) + 0.1))


@pytest.mark.parametrize("weighting", ["uniform", "num_examples"])
@pytest.mark.parametrize("name", BASES)
def test_mime_with_one_local_step_and_everyone_is_fedsgd(name, weighting):
  problem, both = curved(steps=1), {"optimizer": BASES[name], "client_weighting": weighting}
  server = run("fedsgd", problem, EVERYONE, server_learning_rate=0.07, **both)
  left = run("mime", problem, EVERYONE, **LR, **both)
  assert_same(left, server)
  for letter, value in server.server.items():
    np.testing.assert_allclose(left.server[letter], value)


def test_mime_by_examples_is_centralised_momentum_on_the_pooled_loss():
  problem = curved(steps=1)
  rows, targets = (
    np.concatenate([b[part] for client in problem.clients for b in client]) for part in (0, 1)
  )
  x, m = problem.x0, 0.0
  for _ in range(5):
    m = 0.8 * m + g(problem, x, (rows, targets))
    x = x - 0.07 * m
  ours = run(
    "mime", problem, EVERYONE, optimizer=base.sgdm(0.8), client_weighting="num_examples", **LR
  )
  np.testing.assert_allclose(ours.x[-1], x)


def test_mvr_at_the_clients_with_one_full_batch_is_mvr_at_the_server():
  problem = curved(epochs=1)
  whole = problem._replace(
    clients=[
      [tuple(map(np.concatenate, zip(*c, strict=True)))] if c else [] for c in problem.clients
    ]
  )
  server = run("fedsgd", whole, server_learning_rate=0.07, optimizer=base.mvr(0.3))
  assert_same(run("mime_mvr", whole, a=0.3, **LR), server)
  assert_same(
    run("fedsgd", server_learning_rate=0.07, optimizer=base.mvr(1.0)),
    run("fedsgd", server_learning_rate=0.07, optimizer=base.sgd()),
  )


def test_mimexlite_with_one_batch_per_client_is_mimelite_and_else_it_is_not():
  one = one_batch()
  both = {"optimizer": BASES["adam"], **LR}
  assert_same(run("mimexlite", one, **both), run("mimelite", one, **both))
  assert_differs(run("mimexlite", **both), run("mimelite", **both))


@pytest.mark.parametrize("name", BASES)
def test_fedgbo_with_one_step_on_a_full_batch_is_mimelite(name):
  """Then the inverse gives back E[G(x)] exactly."""
  one = one_batch(steps=1)
  both = {"optimizer": BASES[name], **LR}
  assert_same(run("fedgbo", one, **both), run("mimelite", one, **both))


def test_mfl_with_one_client_is_centralised_momentum_that_never_restarts():
  problem = curved()._replace(clients=[curved().clients[0]])
  x, m = problem.x0, 0.0
  for b in batches(problem, 0) * 3:
    m = 0.8 * m + 0.2 * g(problem, x, b)
    x = x - 0.07 * m
  ours = run("mfl", problem, [[0]] * 3, optimizer=BASES["dampened"], **LR)
  np.testing.assert_allclose(ours.x[-1], x)
  np.testing.assert_allclose(ours.server["m"], m)


@pytest.mark.parametrize("weighting", ["uniform", "num_examples"])
def test_fedadc_is_fedavgm_without_local_momentum_or_with_one_step(weighting):
  both = {"server_learning_rate": 0.6, "client_weighting": weighting, **LR}
  for nesterov in (False, True):
    flat = run("fedadc", beta=0.7, beta_l=0.0, nesterov=nesterov, **both)
    assert_same(flat, run("fedavgm", beta=0.7, **both))
  one = curved(steps=1)
  right = run("fedavgm", one, beta=0.7, **both)
  assert_same(run("fedadc", one, beta=0.7, beta_l=0.5, **both), right)
  assert_differs(run("fedadc", one, beta=0.7, beta_l=0.5, nesterov=True, **both), right)


def test_fedcm_with_one_step_is_dampened_momentum():
  one, dampened = one_batch(steps=1), base.sgdm(0.6, dampened=True)
  right = run("fedsgd", one, optimizer=dampened, server_learning_rate=0.07)
  assert_same(run("fedcm", one, alpha=0.4, **LR), right)


def test_ghbm_with_tau_one_and_one_step_is_heavy_ball():
  one = one_batch(steps=1)
  right = run("fedsgd", one, optimizer=base.sgdm(0.8), server_learning_rate=0.07)
  for early in ("zero", "initial"):
    ours = run("ghbm", one, beta=0.8, tau=1, early=early, client_weighting="uniform", **LR)
    assert_same(ours, right)


def test_ghbms_momentum_is_zero_until_tau_rounds_have_passed():
  cohorts = [[0, 1], [2], [4, 5], [0], [1]]
  zero = run("ghbm", cohorts=cohorts, beta=0.9, tau=3, **LR)
  plain = run("fedavg", cohorts=cohorts, client_weighting="num_examples", **LR)
  np.testing.assert_allclose(zero.x[:3], plain.x[:3])
  assert np.abs(zero.x[3] - plain.x[3]).max() > 1e-4
  assert_differs(run("ghbm", cohorts=cohorts, beta=0.9, tau=3, early="initial", **LR), zero)
