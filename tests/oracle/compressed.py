"""Compressed uploads: the clients' updates are quantised.

From FedGLOMO: Algorithms 1 and 2 (FedGLOMO), FedLOMO, FedPAQ, -lm and -glm; FedCOMGATE from its own
paper. `quantise(v, round, client, message)` is Q; rounds and messages count from 0. None: Q(v) = v.
"""

import numpy as np

from tests.oracle.problem import G, Trace, at, batches, g, mean, rounds, trace
from tests.oracle.server_step import local_momentum, local_sgd


def qsgd(
  v: np.ndarray,
  bits: int,
  uniforms: np.ndarray,
  splits: tuple[int, ...],
  norm_of=np.linalg.norm,
  bucket: int | None = None,
) -> np.ndarray:
  """QSGD per tensor, or per bucket of a tensor: sign, level of s = 2^(b−1) − 1, float32 norm.

  A coordinate is rounded up when its number in `uniforms` (in [0, 1)) lies below the fraction that
  rounding down would cut off.
  """
  if bits >= 32:
    return v
  s, parts = 2 ** (bits - 1) - 1, []
  if (
    bucket is not None
  ):  # a tensor of 7 coordinates in buckets of 3 counts as tensors of 3, 3 and 1
    splits = [min(bucket, size - i) for size in splits for i in range(0, size, bucket)]
  cuts = np.cumsum(splits)[:-1]
  for part, u in zip(np.split(v, cuts), np.split(uniforms, cuts), strict=True):
    norm = float(np.float32(norm_of(part))) if part.size else 0.0
    if norm == 0:
      parts.append(np.zeros_like(part))
      continue
    scaled = np.abs(part) / norm * s
    level = np.minimum(np.floor(scaled) + (u < scaled - np.floor(scaled)), s)
    parts.append(norm * np.sign(part) * level / s)
  return np.concatenate(parts)


def _exact(v, t, i, message):
  return v


def fedpaq(
  problem,
  cohorts,
  *,
  client_learning_rate,
  quantise=None,
  server_learning_rate=1.0,
  client_weighting="uniform",
) -> Trace:
  """FedAvg with Q(Δ_i)."""
  Q, x, after = quantise or _exact, problem.x0, {}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    D = E([Q(local_sgd(problem, i, x, eta_l), t, i, 0) for i in S])
    x = x - at(server_learning_rate, t) * D
    after[t] = x
  return trace(problem, cohorts, after)


def fedpaq_lm(
  problem,
  cohorts,
  *,
  client_learning_rate,
  beta_l,
  quantise=None,
  server_learning_rate=1.0,
  client_weighting="uniform",
) -> Trace:
  """FedAvg-lm with Q(Δ_i)."""
  Q, x, after = quantise or _exact, problem.x0, {}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    D = E([Q(local_momentum(problem, i, x, eta_l, beta_l), t, i, 0) for i in S])
    x = x - at(server_learning_rate, t) * D
    after[t] = x
  return trace(problem, cohorts, after)


def fedpaq_glm(
  problem,
  cohorts,
  *,
  client_learning_rate,
  beta,
  beta_l,
  quantise=None,
  server_learning_rate=1.0,
  client_weighting="uniform",
) -> Trace:
  """FedAvg-glm with Q(Δ_i)."""
  Q, x, m, after = quantise or _exact, problem.x0, np.zeros_like(problem.x0), {}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    m = beta * m + E([Q(local_momentum(problem, i, x, eta_l, beta_l), t, i, 0) for i in S])
    x = x - at(server_learning_rate, t) * m
    after[t] = x
  return trace(problem, cohorts, after, {"m": m})


def _local_lomo(problem, i, x, eta_l, first_gradient) -> np.ndarray:
  """FedGLOMO, Algorithm 2, one trajectory: step 0 takes G_i (or the first batch), step k batch k."""
  b_0, *others = batches(problem, i)
  v = {"full": G(problem, i, x), "batch": g(problem, x, b_0)}[first_gradient]
  y_minus, y = x, x - eta_l * v
  for b in others:
    v = g(problem, y, b) + (v - g(problem, y_minus, b))
    y_minus, y = y, y - eta_l * v
  return x - y


def fedlomo(
  problem,
  cohorts,
  *,
  client_learning_rate,
  quantise=None,
  first_gradient="full",
  client_weighting="uniform",
) -> Trace:
  """FedGLOMO's local momentum alone: x⁺ = x − E[Q(Δ)]."""
  Q, x, after = quantise or _exact, problem.x0, {}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    x = x - E([Q(_local_lomo(problem, i, x, eta_l, first_gradient), t, i, 0) for i in S])
    after[t] = x
  return trace(problem, cohorts, after)


def fedglomo(
  problem,
  cohorts,
  *,
  client_learning_rate,
  beta,
  quantise=None,
  first_gradient="full",
  client_weighting="uniform",
) -> Trace:
  """u ← βE[Q(Δ)] + (1−β)u + (1−β)E[Q(Δ − Δ̂)], Δ̂ the same batches from x₋; x⁺ = x − u."""
  Q, x, x_minus, u, after = quantise or _exact, problem.x0, problem.x0, 0.0, {}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    first, second = [], []
    for i in S:
      Delta = _local_lomo(problem, i, x, eta_l, first_gradient)
      Delta_hat = _local_lomo(problem, i, x_minus, eta_l, first_gradient)
      first.append(Q(Delta, t, i, 0))
      second.append(Q(Delta - Delta_hat, t, i, 1))
    beta_k = at(beta, t) if after else 1.0  # in the first round u = E[Q(Δ)]
    u = beta_k * E(first) + (1 - beta_k) * u + (1 - beta_k) * E(second)
    x, x_minus = x - u, x
    after[t] = x
  return trace(problem, cohorts, after, {"u": u, "x_minus": x_minus})


def fedcomgate(
  problem,
  cohorts,
  *,
  client_learning_rate,
  quantise=None,
  server_learning_rate=1.0,
  client_weighting="uniform",
) -> Trace:
  """y ← y − η_l (g − δ_i), Q_i = Q((x − y_i)/η_l); x⁺ = x − η η_l E[Q].

  In the round's second exchange δ_i ← δ_i + Q_i/K_i − E[Q_j/K_j], for the same cohort.
  """
  Q, x, states, after = quantise or _exact, problem.x0, {}, {}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    Qs, per_step = [], []
    for i in S:
      delta_i, y = states.get(i, np.zeros_like(x)), x
      for b in batches(problem, i):
        y = y - eta_l * (g(problem, y, b) - delta_i)
      Q_i = Q((x - y) / eta_l, t, i, 0)
      Qs.append(Q_i)
      per_step.append(Q_i / len(batches(problem, i)))
    x = x - at(server_learning_rate, t) * eta_l * E(Qs)
    for i, own in zip(S, per_step, strict=True):
      states[i] = states.get(i, np.zeros_like(x)) + own - E(per_step)
    after[t] = x
  return trace(problem, cohorts, after, {}, states)
