"""Newer algorithms with plain gradients at the clients.

From FedACG, SCAFFOLD-M (Cheng et al. 2024), FedNova, FedExP and FedInit: from their authors' code where it is
public, SCAFFOLD-M from its paper's rule.
"""

import numpy as np

from tests.oracle.problem import Trace, at, batches, examples, g, mean, rounds, trace


def fedacg(problem, cohorts, *, client_learning_rate, beta, mu, client_weighting="uniform"):
  """Clients start at x̂ = x − βm and are pulled towards it; m ← βm + E[Δ], x⁺ = x − m."""
  x, m, after = problem.x0, np.zeros_like(problem.x0), {}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    ahead, Delta = x - at(beta, t) * m, []
    for i in S:
      y = ahead
      for b in batches(problem, i):
        y = y - eta_l * (g(problem, y, b) + at(mu, t) * (y - ahead))
      Delta.append(ahead - y)
    m = at(beta, t) * m + E(Delta)
    x = x - m
    after[t] = x
  return trace(problem, cohorts, after, {"m": m})


def scaffold_m(
  problem,
  cohorts,
  *,
  client_learning_rate,
  alpha,
  server_learning_rate=1.0,
  client_weighting="uniform",
) -> Trace:
  """y ← y − η_l (α(g − c_i + c) + (1−α)m); c_i⁺ is the mean of the local gradients."""
  x, states, after = problem.x0, {}, {}
  c, m = np.zeros_like(x), np.zeros_like(x)
  N = len(problem.clients)
  everything = sum(examples(problem, j) for j in range(N))
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    Delta, per_step, dc = [], [], []
    for i in S:
      c_i, y, seen = states.get(i, np.zeros_like(x)), x, []
      for b in batches(problem, i):
        seen.append(g(problem, y, b))
        y = y - eta_l * (alpha * (seen[-1] - c_i + c) + (1 - alpha) * m)
      states[i] = np.mean(seen, axis=0)
      Delta.append(x - y)
      per_step.append((x - y) / (eta_l * len(seen)))
      dc.append(states[i] - c_i)
    m = E(per_step)
    if client_weighting == "uniform":
      c = c + len(S) / N * E(dc)
    else:
      c = c + sum(examples(problem, i) * d for i, d in zip(S, dc, strict=True)) / everything
    x = x - at(server_learning_rate, t) * E(Delta)
    after[t] = x
  return trace(problem, cohorts, after, {"c": c, "m": m}, states)


def fednova(
  problem,
  cohorts,
  *,
  client_learning_rate,
  beta_l=0.0,
  mu=0.0,
  beta=0.0,
  effective_steps="auto",
  server_learning_rate=1.0,
  client_weighting="num_examples",
) -> Trace:
  """Each Δ_i is divided by a_i = ‖a_i‖₁, in closed form here; x⁺ = x − η τ E[Δ/a]."""
  x, m, after = problem.x0, np.zeros_like(problem.x0), {}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    normalised, norms, steps = [], [], []
    for i in S:
      y, v, K = x, np.zeros_like(x), len(batches(problem, i))
      for b in batches(problem, i):
        v = beta_l * v + g(problem, y, b)
        y = y - eta_l * (v + mu * (y - x))
      if mu:
        a = (1 - (1 - eta_l * mu) ** K) / (eta_l * mu)
      else:
        a = (K - beta_l * (1 - beta_l**K) / (1 - beta_l)) / (1 - beta_l)
      normalised.append((x - y) / a)
      norms.append(a)
      steps.append(K)
    by_steps = effective_steps == "steps" or (effective_steps == "auto" and mu > 0)
    tau = E(steps) if by_steps else E(norms)
    m = beta * m + tau * E(normalised) / eta_l
    x = x - at(server_learning_rate, t) * eta_l * m
    after[t] = x
  return trace(problem, cohorts, after, {"m": m})


def fedexp(
  problem,
  cohorts,
  *,
  client_learning_rate,
  mu=0.0,
  epsilon=1e-3,
  evaluate="last",
  client_weighting="uniform",
) -> Trace:
  """η = max(1, E‖Δ‖² / (2(‖E[Δ]‖² + ε))); the trace holds what is evaluated."""
  x, after, rates = problem.x0, {}, []
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    Delta = []
    for i in S:
      y = x
      for b in batches(problem, i):
        y = y - eta_l * (g(problem, y, b) + mu * (y - x))
      Delta.append(x - y)
    eta = extrapolation(E([D @ D for D in Delta]), E(Delta), at(epsilon, t))
    before, x = x, x - eta * E(Delta)
    two = evaluate == "mean_of_two" and rates
    after[t] = (before + x) / 2 if two else x
    rates.append(eta)
  return trace(problem, cohorts, after, {"x": x, "eta": rates})


def extrapolation(mean_square: float, mean_delta: np.ndarray, epsilon: float) -> float:
  """FedExP's server rate."""
  below = 2 * (mean_delta @ mean_delta + epsilon)
  return max(1.0, mean_square / below) if below else 1.0


def fedinit(
  problem,
  cohorts,
  *,
  client_learning_rate,
  beta,
  aggregate="moves",
  first_round="initial",
  server_learning_rate=1.0,
  client_weighting="uniform",
) -> Trace:
  """Client i starts at x + β(x − ŷ_i), ŷ_i its last final model."""
  x, states, after = problem.x0, {}, {}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    Delta = []
    for i in S:
      last = states.get(i, {"initial": problem.x0, "none": x}[first_round])
      start = x + beta * (x - last)
      y = start
      for b in batches(problem, i):
        y = y - eta_l * g(problem, y, b)
      states[i] = y
      Delta.append({"moves": start, "models": x}[aggregate] - y)
    x = x - at(server_learning_rate, t) * E(Delta)
    after[t] = x
  return trace(problem, cohorts, after, {}, states)
