"""Stateful clients: they keep state between their rounds.

From SCAFFOLD, Algorithm 1 (SCAFFOLD), GHBM, Algorithm 1 and section 3.4 (FedHBM, local GHBM); FedDyn,
AdaBest and FedCOMGATE (in `compressed`) from their own papers. States
count rounds from 1, so 0 is the start.
"""

import numpy as np

from tests.oracle.problem import G, Trace, at, batches, examples, g, mean, rounds, trace


def scaffold(
  problem,
  cohorts,
  *,
  client_learning_rate,
  server_learning_rate=1.0,
  option="II",
  client_weighting="uniform",
) -> Trace:
  """y ← y − η_l (g − c_i + c); c moves by the cohort's share of all clients (or examples)."""
  x, c, states, after = problem.x0, np.zeros_like(problem.x0), {}, {}
  N = len(problem.clients)
  everything = sum(examples(problem, j) for j in range(N))
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    dy, dc = [], []
    for i in S:
      c_i, y, K = states.get(i, np.zeros_like(x)), x, len(batches(problem, i))
      for b in batches(problem, i):
        y = y - eta_l * (g(problem, y, b) - c_i + c)
      c_plus = {"I": G(problem, i, x), "II": c_i - c + (x - y) / (K * eta_l)}[option]
      dy.append(y - x)
      dc.append(c_plus - c_i)
      states[i] = c_plus
    x = x + at(server_learning_rate, t) * E(dy)
    if client_weighting == "uniform":
      c = c + len(S) / N * E(dc)
    else:
      c = c + sum(examples(problem, i) * d for i, d in zip(S, dc, strict=True)) / everything
    after[t] = x
  return trace(problem, cohorts, after, {"c": c}, states)


def feddyn(problem, cohorts, *, client_learning_rate, alpha, client_weighting="uniform") -> Trace:
  """y ← y − η_l (g − g_i + α(y − x)), g_i ← g_i − α(y_i − x); x⁺ = E[y] − h/α.

  Weighted by examples, clients use α_i = α n̄/n_i, while h and E[y] do not change: h is then the mean
  of the g_i weighted by n_i, and h = 0 at the optimum of the pooled loss.
  """
  x, h, states, after = problem.x0, np.zeros_like(problem.x0), {}, {}
  N = len(problem.clients)
  n_bar = sum(examples(problem, j) for j in range(N)) / N
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, "uniform"), at(client_learning_rate, t)
    ys = []
    for i in S:
      by_examples = client_weighting == "num_examples"
      alpha_i = alpha * n_bar / examples(problem, i) if by_examples else alpha
      g_i, y = states.get(i, np.zeros_like(x)), x
      for b in batches(problem, i):
        y = y - eta_l * (g(problem, y, b) - g_i + alpha_i * (y - x))
      states[i] = g_i - alpha_i * (y - x)
      ys.append(y)
    h = h - alpha / N * sum(y - x for y in ys)
    x = E(ys) - h / alpha
    after[t] = x
  return trace(problem, cohorts, after, {"h": h}, states)


def adabest(
  problem, cohorts, *, client_learning_rate, mu, beta, client_weighting="uniform"
) -> Trace:
  """y ← y − η_l (g − h_i), h_i ← h_i/(t − t_i) + μ(x − y_i); h = β(ȳ₋ − ȳ), x⁺ = ȳ − h."""
  x, y_bar, h = problem.x0, problem.x0, np.zeros_like(problem.x0)
  states, after = {}, {}  # states: (h_i, t_i)
  for r, S in rounds(problem, cohorts):
    E, eta_l, t = mean(problem, S, client_weighting), at(client_learning_rate, r), r + 1
    ys = []
    for i in S:
      (h_i, t_i), y = states.get(i, (np.zeros_like(x), 0)), x
      for b in batches(problem, i):
        y = y - eta_l * (g(problem, y, b) - h_i)
      states[i] = h_i / (t - t_i) + mu * (x - y), t
      ys.append(y)
    y_bar_minus, y_bar = y_bar, E(ys)
    h = beta * (y_bar_minus - y_bar)
    x = y_bar - h
    after[r] = x
  return trace(problem, cohorts, after, {"h": h, "y_bar": y_bar}, states)


def _scale(tau_scaling, tau_i, participation) -> float:
  """1/τ_i as printed, or C as in the authors' code."""
  return {"elapsed": 1 / tau_i, "participation": participation}[tau_scaling]


def local_ghbm(
  problem,
  cohorts,
  *,
  client_learning_rate,
  beta,
  tau_scaling="elapsed",
  participation=None,
  server_learning_rate=1.0,
  client_weighting="num_examples",
) -> Trace:
  """y ← y − η_l g + β/(τ_i K_i)(x − the x received τ_i rounds ago); 0 the first time."""
  x, states, after = problem.x0, {}, {}  # states: (the x received, its round)
  for r, S in rounds(problem, cohorts):
    E, eta_l, t = mean(problem, S, client_weighting), at(client_learning_rate, r), r + 1
    Delta = []
    for i in S:
      received, t_i = states.get(i, (x, 0))
      y, K, scale = x, len(batches(problem, i)), _scale(tau_scaling, t - t_i, participation)
      for b in batches(problem, i):
        y = y - eta_l * g(problem, y, b) + beta * scale / K * (x - received)
      states[i] = x, t
      Delta.append(x - y)
    x = x - at(server_learning_rate, r) * E(Delta)
    after[r] = x
  return trace(problem, cohorts, after, {}, states)


def fedhbm(
  problem,
  cohorts,
  *,
  client_learning_rate,
  beta=1.0,
  tau_scaling="elapsed",
  participation=None,
  first_round="none",
  random_model=None,
  server_learning_rate=1.0,
  client_weighting="num_examples",
) -> Trace:
  """y ← y − η_l g + β/(τ_i K_i)(y − y_i^last), y_i^last the client's own last final iterate."""
  x, states, after = problem.x0, {}, {}  # states: (y_i^last, its round)
  for r, S in rounds(problem, cohorts):
    E, eta_l, t = mean(problem, S, client_weighting), at(client_learning_rate, r), r + 1
    Delta = []
    for i in S:
      y, K = x, len(batches(problem, i))
      random = random_model(i) if random_model else None
      first = {"none": None, "shared": problem.x0, "random": random}[first_round]
      last, t_i = states.get(i, (first, 0))
      scale = _scale(tau_scaling, t - t_i, participation)
      for b in batches(problem, i):
        momentum = 0.0 if last is None else y - last
        y = y - eta_l * g(problem, y, b) + beta * scale / K * momentum
      states[i] = y, t
      Delta.append(x - y)
    x = x - at(server_learning_rate, r) * E(Delta)
    after[r] = x
  return trace(problem, cohorts, after, {}, states)
