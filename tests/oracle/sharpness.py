"""Sharpness-aware local steps: FedSAM and MoFedSAM (Qu et al. 2022), FedSpeed.

The climb is u(g) = ρ g/(‖g‖ + 1e-7) with the norm over the whole model; g̃(y; b) = g(y + u(g(y; b)); b).
"""

import numpy as np

from tests.oracle.problem import Trace, at, batches, examples, g, mean, rounds, trace


def g_tilde(problem, y, b, rho, climb="normalised"):
  """The gradient on the same batch after the climb from y."""
  up = g(problem, y, b)
  scale = {"normalised": rho / (np.sqrt(np.sum(up**2)) + 1e-7), "plain": rho}[climb]
  return g(problem, y + scale * up, b)


def fedsam(
  problem,
  cohorts,
  *,
  client_learning_rate,
  rho,
  server_learning_rate=1.0,
  client_weighting="uniform",
) -> Trace:
  """y ← y − η_l g̃; then as fedavg."""
  x, after = problem.x0, {}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    Delta = []
    for i in S:
      y = x
      for b in batches(problem, i):
        y = y - eta_l * g_tilde(problem, y, b, at(rho, t))
      Delta.append(x - y)
    x = x - at(server_learning_rate, t) * E(Delta)
    after[t] = x
  return trace(problem, cohorts, after)


def mofedsam(
  problem,
  cohorts,
  *,
  client_learning_rate,
  rho,
  alpha,
  server_learning_rate=1.0,
  client_weighting="uniform",
) -> Trace:
  """y ← y − η_l (α g̃ + (1−α)m); m ← E[Δ/(η_l K_i)]."""
  x, m, after = problem.x0, np.zeros_like(problem.x0), {}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    Delta = []
    for i in S:
      y = x
      for b in batches(problem, i):
        y = y - eta_l * (alpha * g_tilde(problem, y, b, rho) + (1 - alpha) * m)
      Delta.append(x - y)
    m = E([D / (eta_l * len(batches(problem, i))) for i, D in zip(S, Delta, strict=True)])
    x = x - at(server_learning_rate, t) * E(Delta)
    after[t] = x
  return trace(problem, cohorts, after, {"m": m})


def fedspeed(
  problem,
  cohorts,
  *,
  client_learning_rate,
  alpha,
  rho,
  mix=1.0,
  climb="normalised",
  duals="everyone",
  client_weighting="uniform",
) -> Trace:
  """y ← y − η_l ((1−θ)g + θg̃ − g_i + α(y − x)); x⁺ from the duals of all clients, or of the cohort."""
  x, h, states, after = problem.x0, np.zeros_like(problem.x0), {}, {}
  N = len(problem.clients)
  n_bar = sum(examples(problem, j) for j in range(N)) / N
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, "uniform"), at(client_learning_rate, t)
    ys, corrected = [], []
    for i in S:
      by_examples = client_weighting == "num_examples"
      alpha_i = alpha * n_bar / examples(problem, i) if by_examples else alpha
      g_i, y = states.get(i, np.zeros_like(x)), x
      for b in batches(problem, i):
        blend = (1 - mix) * g(problem, y, b) + mix * g_tilde(problem, y, b, rho, climb)
        y = y - eta_l * (blend - g_i + alpha_i * (y - x))
      states[i] = g_i - alpha_i * (y - x)
      ys.append(y)
      corrected.append(y - states[i] / alpha)
    h = h + alpha / N * sum(x - y for y in ys)
    x = E(ys) - h / alpha if duals == "everyone" else E(corrected)
    after[t] = x
  return trace(problem, cohorts, after, {"h": h} if duals == "everyone" else {}, states)
