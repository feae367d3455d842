"""Adaptive optimizers at the clients: FedLion, DiLoCo, FedAdamW, FedMuon, from their public code.

FedMuon is that of Liu et al., arXiv 2510.27403. Matrices are stored (inputs, outputs).
"""

import numpy as np

from tests.oracle.problem import Problem, Trace, at, batches, g, mean, rounds, trace


def fedlion(
  problem,
  cohorts,
  *,
  client_learning_rate,
  beta1=0.9,
  beta2=0.99,
  decoupled_weight_decay=0.0,
  client_weighting="uniform",
) -> Trace:
  """The sign of the interpolated momentum, which is tracked after the step; averages y and s."""
  x, m, after = problem.x0, np.zeros_like(problem.x0), {}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    ys, statistics = [], []
    for i in S:
      y, s = x, m
      for b in batches(problem, i):
        gradient = g(problem, y, b)
        update = np.sign(beta1 * s + (1 - beta1) * gradient)
        y = y - eta_l * (update + decoupled_weight_decay * y)
        s = beta2 * s + (1 - beta2) * gradient
      ys.append(y)
      statistics.append(s)
    x, m = E(ys), E(statistics)
    after[t] = x
  return trace(problem, cohorts, after, {"m": m})


def diloco(
  problem,
  cohorts,
  *,
  client_learning_rate,
  server_learning_rate=0.7,
  beta=0.9,
  inner="adamw",
  inner_state="keep",
  beta1=0.9,
  beta2=0.95,
  epsilon=1e-8,
  decoupled_weight_decay=0.1,
  client_weighting="uniform",
) -> Trace:
  """Inner AdamW with each client's own moments; outer SGD with torch's Nesterov momentum."""
  x, buffer, states, after = problem.x0, np.zeros_like(problem.x0), {}, {}
  zero = np.zeros_like(x)
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    Delta = []
    for i in S:
      y = x
      m, v, k = states.get(i, (zero, zero, 0)) if inner_state == "keep" else (zero, zero, 0)
      for b in batches(problem, i):
        gradient = g(problem, y, b)
        if inner == "sgd":
          y = y - eta_l * gradient
          continue
        k = k + 1
        m = beta1 * m + (1 - beta1) * gradient
        v = beta2 * v + (1 - beta2) * gradient**2
        m_hat, v_hat = m / (1 - beta1**k), v / (1 - beta2**k)
        y = y * (1 - eta_l * decoupled_weight_decay) - eta_l * m_hat / (np.sqrt(v_hat) + epsilon)
      if inner == "adamw" and inner_state == "keep":
        states[i] = (m, v, k)
      Delta.append(x - y)
    buffer = beta * buffer + E(Delta)
    x = x - at(server_learning_rate, t) * (E(Delta) + beta * buffer)
    after[t] = x
  return trace(problem, cohorts, after, {"b": buffer}, states)


def fedadamw(
  problem,
  cohorts,
  *,
  client_learning_rate,
  gamma=0.5,
  beta1=0.9,
  beta2=0.999,
  epsilon=1e-8,
  decoupled_weight_decay=0.01,
  second_moment="tensor",
  first_moment="round",
  client_weighting="uniform",
) -> Trace:
  """AdamW from m = 0 and the server's v̄, plus γ times last round's mean step."""
  x, after = problem.x0, {}
  s_bar, v_bar, T = np.zeros_like(x), np.zeros_like(x), 0.0
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    Delta, per_step, seconds, steps = [], [], [], []
    for i in S:
      y, m, v, k = x, np.zeros_like(x), v_bar, 0
      for b in batches(problem, i):
        gradient, k = g(problem, y, b), k + 1
        m = beta1 * m + (1 - beta1) * gradient
        v = beta2 * v + (1 - beta2) * gradient**2
        m_hat = m / (1 - beta1 ** (k if first_moment == "round" else T + k))
        v_hat = v / (1 - beta2 ** (T + k))
        y = y - eta_l * (m_hat / (np.sqrt(v_hat) + epsilon) + decoupled_weight_decay * y)
        y = y - eta_l * gamma * s_bar
      if second_moment == "tensor":
        parts = np.split(v, np.cumsum(problem.splits)[:-1])
        v = np.concatenate([np.full(part.size, part.mean()) for part in parts])
      Delta.append(x - y)
      per_step.append((x - y) / (eta_l * k))
      seconds.append(v)
      steps.append(k)
    x, s_bar, v_bar, T = x - E(Delta), E(per_step), E(seconds), T + E(steps)
    after[t] = x
  return trace(problem, cohorts, after, {"s_bar": s_bar, "v_bar": v_bar, "T": T})


def newton_schulz(U: np.ndarray) -> np.ndarray:
  """Five quintic iterations towards the nearest orthogonal matrix, from U/‖U‖_F."""
  X = U / (np.linalg.norm(U) + 1e-7)
  wide = X if X.shape[0] <= X.shape[1] else X.T
  for _ in range(5):
    A = wide @ wide.T
    wide = 3.4445 * wide - 4.7750 * A @ wide + 2.0315 * A @ A @ wide
  return wide if X.shape[0] <= X.shape[1] else wide.T


def fedmuon(
  problem: Problem,
  cohorts,
  *,
  client_learning_rate,
  gamma=0.5,
  beta=0.98,
  nesterov=True,
  kappa=1.0,
  decoupled_weight_decay=0.01,
  beta1=0.9,
  beta2=0.95,
  epsilon=1e-10,
  client_weighting="uniform",
) -> Trace:
  """Muon for matrices and AdamW for vectors, each with weight 1−γ beside γ times last round's step."""
  lam, share = decoupled_weight_decay, 1 - gamma
  shapes = problem.shapes or tuple((size,) for size in problem.splits)
  cuts = np.cumsum([int(np.prod(shape)) for shape in shapes])[:-1]
  x, after = problem.x0, {}
  s_bar, M = np.zeros_like(x), {j: np.zeros(s) for j, s in enumerate(shapes) if len(s) > 1}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    Delta, per_step, momenta = [], [], []
    for i in S:
      y, M_i, k = x, dict(M), 0
      moments = {j: (np.zeros(s), np.zeros(s)) for j, s in enumerate(shapes) if len(s) < 2}
      for b in batches(problem, i):
        k = k + 1
        gradients, weights = (np.split(a, cuts) for a in (g(problem, y, b), y))
        moved = []
        for j, shape in enumerate(shapes):
          grad, w = gradients[j].reshape(shape), weights[j].reshape(shape)
          if j in M_i:
            M_i[j] = beta * M_i[j] + (1 - beta) * grad
            U = (1 - beta) * grad + beta * M_i[j] if nesterov else M_i[j]
            O = newton_schulz(U.reshape(-1, shape[-1])).reshape(shape)
            r = np.sqrt(max(1, shape[1] / shape[0])) if len(shape) == 2 else 1.0
            w = w - eta_l * share * kappa * (r * O + lam * w)
          else:
            m, v = moments[j]
            m, v = beta1 * m + (1 - beta1) * grad, beta2 * v + (1 - beta2) * grad**2
            moments[j] = m, v
            m_hat, v_hat = m / (1 - beta1**k), v / (1 - beta2**k)
            w = w - eta_l * share * (m_hat / (np.sqrt(v_hat) + epsilon) + lam * w)
          moved.append(w.ravel())
        y = np.concatenate(moved) - eta_l * gamma * s_bar
      Delta.append(x - y)
      per_step.append((x - y) / (eta_l * k))
      momenta.append(M_i)
    x, s_bar = x - E(Delta), E(per_step)
    M = {j: E([each[j] for each in momenta]) for j in M}
    after[t] = x
  return trace(problem, cohorts, after, {"s_bar": s_bar, "M": M})
