"""The oracles on linear losses, where several local steps have closed forms."""

import numpy as np
import pytest

from tests.oracle import base_optimizers as base
from tests.oracle.comparison import BASES, LR, assert_differs, curved, run
from tests.oracle.problem import batches, examples, g


def sloping(**fields):
  """Linear losses: a gradient is a batch's own vector wherever it is taken; K_i differ."""
  return curved(weight_decay=0.0, **fields)._replace(gradient=lambda y, b: b[0].mean(axis=0))


def summed(problem, i):
  return sum(g(problem, problem.x0, b) for b in batches(problem, i))


@pytest.mark.parametrize("nesterov", [False, True])
def test_fedadc_on_linear_losses_spreads_its_momentum_over_the_steps(nesterov):
  """Δ_i = η_l(Σg + β_l m) whatever K_i, so that m ← E[Σg] + βm."""
  problem, cohorts = sloping(), [[0, 1], [2, 4], [5]]
  ours = run("fedadc", problem, cohorts, beta=0.7, beta_l=0.5, nesterov=nesterov, **LR)
  x, m = problem.x0, 0.0
  for S, after in zip(cohorts, ours.x, strict=True):
    m = np.mean([summed(problem, i) for i in S], axis=0) + 0.7 * m
    x = x - 0.07 * m
    np.testing.assert_allclose(after, x)
  curve = (run("fedadc", beta=0.7, beta_l=0.5, nesterov=form, **LR) for form in (False, True))
  assert_differs(*curve)


def test_fedadc_looks_ahead_before_it_takes_the_gradient():
  problem = curved(steps=1)
  first, second = run(
    "fedadc", cohorts=[[0], [1]], problem=problem, beta=0.7, beta_l=0.5, nesterov=True, **LR
  ).x
  m = (problem.x0 - first) / 0.07
  ahead = first - 0.07 * 0.5 * m
  delta = first - (ahead - 0.07 * g(problem, ahead, problem.clients[1][0]))
  np.testing.assert_allclose(second, first - 0.07 * (delta / 0.07 + (0.7 - 0.5) * m))


@pytest.mark.parametrize("weighting", ["uniform", "num_examples"])
def test_fedcm_on_linear_losses_averages_the_step_of_each_client(weighting):
  """Δ_i/(η_l K_i) = α ḡ_i + (1−α)m, ḡ_i the mean over the client's steps."""
  problem, cohorts = sloping(), [[0, 1], [2, 4], [5, 0]]
  ours = run("fedcm", problem, cohorts, alpha=0.3, client_weighting=weighting, **LR)
  x, m = problem.x0, np.zeros(4)
  for S, after in zip(cohorts, ours.x, strict=True):
    n = [examples(problem, i) if weighting == "num_examples" else 1 for i in S]
    K = [len(batches(problem, i)) for i in S]
    step = [0.3 * summed(problem, i) / k + 0.7 * m for i, k in zip(S, K, strict=True)]
    x = x - 0.07 * np.average([k * s for k, s in zip(K, step, strict=True)], axis=0, weights=n)
    m = np.average(step, axis=0, weights=n)
    np.testing.assert_allclose(after, x)
  np.testing.assert_allclose(ours.server["m"], m)


@pytest.mark.parametrize("weighting", ["uniform", "num_examples"])
@pytest.mark.parametrize("name", BASES)
def test_fedgbo_on_linear_losses_tracks_the_mean_gradient_over_all_steps(name, weighting):
  """U is affine in g, so I gives E[Σg]/E[K_i] when the additive part of U is the same for all."""
  problem, cohorts, optimizer = sloping(steps=3), [[0, 1], [2, 4], [5, 0]], BASES[name]
  both = {"optimizer": optimizer, "client_weighting": weighting}
  ours = run("fedgbo", problem, cohorts, **both, **LR)
  s = optimizer.start(problem.x0)
  for S in cohorts:
    n = [examples(problem, i) if weighting == "num_examples" else 1 for i in S]
    s = optimizer.track(np.average([summed(problem, i) for i in S], axis=0, weights=n) / 3, s)
  for letter, value in s.items():
    np.testing.assert_allclose(ours.server[letter], value)


def test_fedgbo_divides_by_the_cohorts_mean_number_of_steps():
  problem, S = sloping(), [0, 1, 5]
  ours = run("fedgbo", problem, [S], optimizer=base.sgdm(0.8, dampened=True), **LR)
  steps = sum(len(batches(problem, i)) for i in S)
  mean_gradient = sum(summed(problem, i) for i in S) / steps
  np.testing.assert_allclose(ours.server["m"], 0.2 * mean_gradient)


def test_local_momentum_restarts_every_round_and_the_servers_does_not():
  """A local gradient k steps before the last counts 1 + β_l + ... + β_l^k times."""
  problem, x, m = sloping(), sloping().x0, 0.0
  both = {"cohorts": [[0], [2], [0]], "beta_l": 0.5, **LR}
  plain, momentum = run("fedavg_lm", problem, **both), run("fedavg_glm", problem, beta=0.8, **both)
  for t, i in enumerate([0, 2, 0]):
    last_first = batches(problem, i)[::-1]
    times = [(1 - 0.5 ** (k + 1)) / 0.5 for k in range(len(last_first))]
    pairs = zip(times, last_first, strict=True)
    delta = 0.07 * sum(count * g(problem, x, b) for count, b in pairs)
    x, m = x - delta, 0.8 * m + delta
    np.testing.assert_allclose(plain.x[t], x)
  np.testing.assert_allclose(momentum.server["m"], m)
  assert_differs(plain, momentum)


def test_ghbm_on_linear_losses_adds_a_tauth_of_what_the_last_tau_rounds_moved():
  """Δ_i = η_l Σg − (β/τ)(x − x₍τ₎) whatever K_i, from round τ on."""
  problem, cohorts = sloping(), [[0], [1], [2], [4], [5], [0]]
  for early in ("zero", "initial"):
    ours = run("ghbm", problem, cohorts, beta=0.8, tau=2, early=early, **LR)
    models = [problem.x0, *ours.x]
    for t, (i,) in enumerate(cohorts):
      past = models[t - 2] if t >= 2 else {"zero": models[t], "initial": models[0]}[early]
      delta = 0.07 * summed(problem, i) - 0.8 / 2 * (models[t] - past)
      np.testing.assert_allclose(models[t + 1], models[t] - delta)
