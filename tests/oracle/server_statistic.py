"""A server statistic that clients download and use in their local steps.

From Mime, Algorithm 1 (Mime, MimeLite), FedGBO, Algorithm 1 (FedGBO) and section 5.2 (MimeXlite),
GHBM, eq. 6 (GHBM); FedCM and FedADC from their own papers.
"""

import numpy as np

from tests.oracle.problem import G, Trace, at, batches, g, mean, rounds, trace


def mime(problem, cohorts, *, client_learning_rate, optimizer, client_weighting="uniform") -> Trace:
  """y ← y − η_l U(g(y;b) − g(x;b) + c, s), c = E[G(x)] of this cohort; s ← V(c, s)."""
  x, s, after = problem.x0, optimizer.start(problem.x0), {}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    c = E([G(problem, i, x) for i in S])
    ys = []
    for i in S:
      y = x
      for b in batches(problem, i):
        y = y - eta_l * optimizer.step(g(problem, y, b) - g(problem, x, b) + c, s)
      ys.append(y)
    x, s = E(ys), optimizer.track(c, s)
    after[t] = x
  return trace(problem, cohorts, after, s)


def _mimelite(problem, cohorts, client_learning_rate, optimizer, client_weighting, report) -> Trace:
  """y ← y − η_l U(g, s); s ← V(E[report(i, x)], s)."""
  x, s, after = problem.x0, optimizer.start(problem.x0), {}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    ys = []
    for i in S:
      y = x
      for b in batches(problem, i):
        y = y - eta_l * optimizer.step(g(problem, y, b), s)
      ys.append(y)
    s = optimizer.track(E([report(i, x) for i in S]), s)
    x = E(ys)
    after[t] = x
  return trace(problem, cohorts, after, s)


def mimelite(
  problem, cohorts, *, client_learning_rate, optimizer, client_weighting="uniform"
) -> Trace:
  """Mime without its correction: the clients report G_i(x)."""

  def report(i, x):
    return G(problem, i, x)

  return _mimelite(problem, cohorts, client_learning_rate, optimizer, client_weighting, report)


def mimexlite(
  problem, cohorts, *, client_learning_rate, optimizer, client_weighting="uniform"
) -> Trace:
  """MimeLite whose clients report g(x; b) of their first local batch."""

  def report(i, x):
    return g(problem, x, batches(problem, i)[0])

  return _mimelite(problem, cohorts, client_learning_rate, optimizer, client_weighting, report)


def mime_mvr(problem, cohorts, *, client_learning_rate, a, client_weighting="uniform") -> Trace:
  """y ← y − η_l [a g(y;b) + (1−a)(m + g(y;b) − g(x₋;b))]; m likewise from E[G(x)], E[G(x₋)]."""
  x, x_minus, m, after = problem.x0, problem.x0, None, {}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    here, there = (E([G(problem, i, point) for i in S]) for point in (x, x_minus))
    if m is None:  # the extra exchange of the first round
      m = here
    ys = []
    for i in S:
      y = x
      for b in batches(problem, i):
        gradient = g(problem, y, b)
        y = y - eta_l * (a * gradient + (1 - a) * (m + gradient - g(problem, x_minus, b)))
      ys.append(y)
    m = a * here + (1 - a) * (m + here - there)
    x, x_minus = E(ys), x
    after[t] = x
  return trace(problem, cohorts, after, {"m": m, "x_minus": x_minus})


def fedgbo(
  problem, cohorts, *, client_learning_rate, optimizer, client_weighting="uniform"
) -> Trace:
  """y ← y − η_l U(g, s); s ← V(I(x, x⁺, s, K, η_l), s) with K = E[K_i]."""
  x, s, after = problem.x0, optimizer.start(problem.x0), {}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    ys = []
    for i in S:
      y = x
      for b in batches(problem, i):
        y = y - eta_l * optimizer.step(g(problem, y, b), s)
      ys.append(y)
    x_plus, K = E(ys), E([len(batches(problem, i)) for i in S])
    biased_gradient = optimizer.inverse((x - x_plus) / (eta_l * K), s)
    x, s = x_plus, optimizer.track(biased_gradient, s)
    after[t] = x
  return trace(problem, cohorts, after, s)


def mfl(problem, cohorts, *, client_learning_rate, optimizer, client_weighting="uniform") -> Trace:
  """The statistics change in every local step and are averaged like the models."""
  x, s, after = problem.x0, optimizer.start(problem.x0), {}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    ys, statistics = [], []
    for i in S:
      y, s_i = x, s
      for b in batches(problem, i):
        gradient = g(problem, y, b)
        s_i = optimizer.track(gradient, s_i)
        y = y - eta_l * optimizer.moving(gradient, s_i)
      ys.append(y)
      statistics.append(s_i)
    x, s = E(ys), {letter: E([s_i[letter] for s_i in statistics]) for letter in s}
    after[t] = x
  return trace(problem, cohorts, after, s)


def fedcm(
  problem,
  cohorts,
  *,
  client_learning_rate,
  alpha,
  server_learning_rate=1.0,
  client_weighting="uniform",
) -> Trace:
  """y ← y − η_l (αg + (1−α)m); m ← E[Δ/(η_l K_i)], x⁺ = x − η E[Δ]."""
  x, m, after = problem.x0, np.zeros_like(problem.x0), {}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    Delta = []
    for i in S:
      y = x
      for b in batches(problem, i):
        y = y - eta_l * (alpha * g(problem, y, b) + (1 - alpha) * m)
      Delta.append(x - y)
    m = E([D / (eta_l * len(batches(problem, i))) for i, D in zip(S, Delta, strict=True)])
    x = x - at(server_learning_rate, t) * E(Delta)
    after[t] = x
  return trace(problem, cohorts, after, {"m": m})


def fedadc(
  problem,
  cohorts,
  *,
  client_learning_rate,
  beta,
  beta_l,
  nesterov=False,
  server_learning_rate=1.0,
  client_weighting="uniform",
) -> Trace:
  """Each step adds β_l m/K_i, before or after the gradient; m ← E[Δ]/η_l + (β − β_l)m."""
  x, m, after = problem.x0, np.zeros_like(problem.x0), {}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    Delta = []
    for i in S:
      y, K = x, len(batches(problem, i))
      for b in batches(problem, i):
        if nesterov:
          ahead = y - eta_l * beta_l * m / K
          y = ahead - eta_l * g(problem, ahead, b)
        else:
          y = y - eta_l * (g(problem, y, b) + beta_l * m / K)
      Delta.append(x - y)
    m = E(Delta) / eta_l + (beta - beta_l) * m
    x = x - at(server_learning_rate, t) * eta_l * m
    after[t] = x
  return trace(problem, cohorts, after, {"m": m})


def ghbm(
  problem,
  cohorts,
  *,
  client_learning_rate,
  beta,
  tau,
  early="zero",
  server_learning_rate=1.0,
  client_weighting="num_examples",
) -> Trace:
  """y ← y − η_l g + β/(τ K_i)(x − x₍τ₎); before τ rounds have passed, x₍τ₎ is x or x⁰."""
  x, ring, after = problem.x0, [], {}  # ring: the last τ models, oldest first
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    x_early = {"zero": x, "initial": problem.x0}[early]
    x_tau = ring[0] if len(ring) == tau else x_early
    Delta = []
    for i in S:
      y, K = x, len(batches(problem, i))
      for b in batches(problem, i):
        y = y - eta_l * g(problem, y, b) + beta / (tau * K) * (x - x_tau)
      Delta.append(x - y)
    ring = [*ring, x][-tau:]
    x = x - at(server_learning_rate, t) * E(Delta)
    after[t] = x
  return trace(problem, cohorts, after, {"ring": np.array(ring)})
