"""The oracles against each other: compressed uploads and asynchronous clients."""

import numpy as np
import pytest

from tests.oracle import Arrive, Start, events_without_delay, qsgd
from tests.oracle.comparison import LR, assert_differs, assert_same, curved, one_batch, run
from tests.oracle.problem import G, batches, g


def test_fedlomo_and_fedglomo():
  one = one_batch(epochs=4)
  assert_same(run("fedlomo", one, **LR), run("fedavg", one, **LR))
  assert_differs(run("fedlomo", **LR), run("fedavg", **LR))
  assert_same(run("fedglomo", beta=1.0, **LR), run("fedlomo", **LR))
  for first in ("full", "batch"):
    both = {"cohorts": [[0, 2, 5]] * 4, "first_gradient": first, **LR}
    assert_same(run("fedglomo", beta=0.3, **both), run("fedlomo", **both))
  assert_differs(run("fedglomo", beta=0.3, **LR), run("fedlomo", **LR))


@pytest.mark.parametrize("first", ["full", "batch"])
def test_fedlomo_adds_up_the_changes_of_gradient_over_each_batch(first):
  """v_k = v_0 + Σ_j [g(y_j; b_j) − g(y_{j−1}; b_j)], j = 1..k; batch 0 gives v_0 or nothing."""
  problem = curved()
  b = batches(problem, 2)
  y = [problem.x0]
  for k in range(len(b)):
    v = G(problem, 2, y[0]) if first == "full" else g(problem, y[0], b[0])
    for j in range(1, k + 1):
      v = v + g(problem, y[j], b[j]) - g(problem, y[j - 1], b[j])
    y.append(y[k] - 0.07 * v)
  assert len(b) == 6
  ours = run("fedlomo", cohorts=[[2]], first_gradient=first, **LR)
  np.testing.assert_allclose(ours.x[0], y[-1])


def test_without_compression_fedpaq_is_fedavg_with_any_momentum():
  rates = {"server_learning_rate": 0.8, "beta_l": 0.5, **LR}
  assert_same(run("fedpaq_lm", **rates), run("fedavg_lm", **rates))
  assert_same(run("fedpaq_glm", beta=0.6, **rates), run("fedavg_glm", beta=0.6, **rates))


def test_messages_are_quantised_one_by_one():
  seen = []

  def quantise(v, t, i, message):
    seen.append((t, i, message))
    return v * (2.0 if message == 0 else 3.0)

  ours = run("fedglomo", cohorts=[[0], [1]], beta=0.25, quantise=quantise, **LR)
  assert seen == [(0, 0, 0), (0, 0, 1), (1, 1, 0), (1, 1, 1)]
  here, there = (
    run("fedlomo", curved()._replace(x0=x), [[1]], **LR) for x in (ours.x[0], curved().x0)
  )
  delta, delta_hat = ours.x[0] - here.x[0], curved().x0 - there.x[0]
  u = 0.25 * 2 * delta + 0.75 * (curved().x0 - ours.x[0]) + 0.75 * 3 * (delta - delta_hat)
  np.testing.assert_allclose(ours.x[1], ours.x[0] - u)
  twice = run("fedpaq", quantise=lambda v, *_: 2 * v, **LR)
  assert_same(twice, run("fedavg", server_learning_rate=2.0, **LR))


def test_qsgd_is_unbiased_within_its_variance_bound_and_leaves_zero_alone():
  random, splits, bits = np.random.default_rng(0), (3, 5), 3
  v, s = random.normal(size=8), 3
  draws = np.array([qsgd(v, bits, random.random(8), splits) for _ in range(20000)])
  np.testing.assert_allclose(draws.mean(axis=0), v, atol=0.02)
  bound = sum(
    min(d / s**2, np.sqrt(d) / s) * (p**2).sum()
    for d, p in zip(splits, np.split(v, [3]), strict=True)
  )
  assert ((draws - v) ** 2).sum(axis=1).mean() < bound
  norms = np.repeat([np.linalg.norm(v[:3]), np.linalg.norm(v[3:])], splits)
  levels = np.abs(draws) / norms * s
  np.testing.assert_allclose(levels, np.round(levels), atol=1e-6)
  assert np.array_equal(qsgd(0 * v, bits, random.random(8), splits), 0 * v)
  assert qsgd(v, 32, random.random(8), splits) is v
  assert np.float32(0.7) < 0.7  # so that the level would be 2 of 1 without the clamp
  assert qsgd(np.array([0.7]), 2, np.array([0.0]), (1,)) == np.float32(0.7)


@pytest.mark.parametrize("stages", [None, [(2, 0.9, 0.5, 0.4), (9, 0.3, 0.8, 0.4)]])
def test_autofedgm_without_delay_is_fedgm_at_rate_over_k(stages):
  cohorts, K = [[0, 1], [2, 4], [5, 0], [1, 4]], 3
  fields = {"beta": 0.6, "nu": 0.4, "server_learning_rate": 0.9} if stages is None else {}
  scaled = stages and [(n, e * K, b, v) for n, e, b, v in stages]
  ours = run(
    "autofedgm",
    cohorts=events_without_delay(cohorts, K),
    m=2,
    stages=scaled,
    **{**fields, **({"server_learning_rate": 0.9 * K} if fields else {})},
    **LR,
  )
  assert_same(ours, run("fedgm", curved(steps=K), cohorts, stages=stages, **fields, **LR))
  assert ours.server["dropped"] == 0


def test_an_update_counts_from_the_model_and_rate_of_its_start():
  """Job 'slow' starts on x⁰ and arrives after one step; η_l is its starting round's."""
  rate = {"client_learning_rate": lambda t: 0.05 * (t + 1)}
  events = [Start("slow", 0, 4), Start("a", 1, 2), Arrive("a"), Start("b", 2, 1)]
  events += [Arrive("slow"), Arrive("b")]
  ours = run("autofedavg", cohorts=events, m=1, **rate)
  x0 = curved().x0

  def normalised(i, x, K, eta_l):
    return (
      x - run("fedavg", curved(steps=K)._replace(x0=x), [[i]], client_learning_rate=eta_l).x[0]
    ) / K

  x1 = x0 - normalised(1, x0, 2, 0.05)
  x2 = x1 - normalised(0, x0, 4, 0.05)
  x3 = x2 - normalised(2, x1, 1, 0.10)
  np.testing.assert_allclose(ours.x, [x1, x2, x3])


def test_a_stale_update_is_dropped_and_counted_or_waited_for():
  events = [
    Start("old", 0, 2),
    Start("a", 1, 2),
    Arrive("a"),
    Start("b", 2, 2),
    Arrive("b"),
    Arrive("old"),
  ]
  drop = run("autofedavg", cohorts=events, m=1, max_staleness=1, **LR)
  assert (len(drop.x), drop.server["dropped"]) == (2, 1)
  block = run("autofedavg", cohorts=events, m=1, max_staleness=1, stale="block", **LR)
  assert (len(block.x), block.server["dropped"]) == (2, 0)
  np.testing.assert_allclose(block.x[0], drop.x[0])
  assert_differs(block, drop)


def test_the_server_waits_only_for_jobs_that_would_get_too_old():
  """'late' started at version 1: at version 2 the server may still step, at version 3 it waits."""
  events = [Start("a", 0, 2), Arrive("a"), Start("late", 1, 2)]
  for job in "bcd":
    events += [Start(job, 2, 2), Arrive(job)]
  rules = {"m": 1, "max_staleness": 2, "stale": "block", **LR}
  assert len(run("autofedavg", cohorts=events, **rules).x) == 3
  ours = run("autofedavg", cohorts=[*events, Arrive("late")], **rules)
  assert (len(ours.x), ours.server["dropped"]) == (4, 0)
