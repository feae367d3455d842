"""The server step: clients run local SGD, and the server steps along E[Δ], Δ_i = x − y_i.

From FedGM, Algorithms 1 and 2 (FedAvg), FedGLOMO (FedAvg-lm, -glm) and Karimireddy's slides (FedSGD).
FedGM and its special cases are in `general_momentum`, the adaptive server steps in `adaptive`.
"""

import numpy as np

from tests.oracle.base_optimizers import Mvr, Optimizer, sgd
from tests.oracle.problem import G, Problem, Rate, Trace, at, batches, g, mean, rounds, trace


def local_sgd(problem: Problem, i: int, x: np.ndarray, eta_l: float) -> np.ndarray:
  """LocalOPT of FedGM, Algorithm 2: Δ_i after K_i steps y ← y − η_l g(y; b)."""
  y = x
  for b in batches(problem, i):
    y = y - eta_l * g(problem, y, b)
  return x - y


def local_momentum(
  problem: Problem, i: int, x: np.ndarray, eta_l: float, beta_l: float
) -> np.ndarray:
  """Δ_i after v ← β_l v + g, y ← y − η_l v, with v = 0 at the start of the round."""
  y, v = x, np.zeros_like(x)
  for b in batches(problem, i):
    v = beta_l * v + g(problem, y, b)
    y = y - eta_l * v
  return x - y


def fedsgd(
  problem, cohorts, *, server_learning_rate=1.0, optimizer=None, client_weighting="uniform"
) -> Trace:
  """x⁺ = x − η U(E[G], s), then s ← V(E[G], s); no local steps."""
  base: Optimizer | Mvr = sgd() if optimizer is None else optimizer
  if isinstance(base, Mvr):
    return _fedsgd_mvr(problem, cohorts, server_learning_rate, base.a, client_weighting)
  x, s, after = problem.x0, base.start(problem.x0), {}
  for t, S in rounds(problem, cohorts):
    E = mean(problem, S, client_weighting)
    gradient = E([G(problem, i, x) for i in S])
    x = x - at(server_learning_rate, t) * base.step(gradient, s)
    s = base.track(gradient, s)
    after[t] = x
  return trace(problem, cohorts, after, s)


def _fedsgd_mvr(problem: Problem, cohorts, eta: Rate, a: float, weighting: str) -> Trace:
  x, x_minus, m, after = problem.x0, problem.x0, None, {}
  for t, S in rounds(problem, cohorts):
    E = mean(problem, S, weighting)
    here, there = (E([G(problem, i, point) for i in S]) for point in (x, x_minus))
    m = here if m is None else a * here + (1 - a) * (m + here - there)
    x, x_minus = x - at(eta, t) * m, x
    after[t] = x
  return trace(problem, cohorts, after, {"m": m, "x_minus": x_minus})


def fedavg(
  problem,
  cohorts,
  *,
  client_learning_rate,
  server_learning_rate=1.0,
  client_weighting="uniform",
) -> Trace:
  """x⁺ = x − η E[Δ]."""
  x, after = problem.x0, {}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    x = x - at(server_learning_rate, t) * E([local_sgd(problem, i, x, eta_l) for i in S])
    after[t] = x
  return trace(problem, cohorts, after)


def fedprox(
  problem,
  cohorts,
  *,
  client_learning_rate,
  mu,
  server_learning_rate=1.0,
  client_weighting="uniform",
) -> Trace:
  """Local step y ← y − η_l (g + μ(y − x)), then as fedavg."""
  x, after = problem.x0, {}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    Delta = []
    for i in S:
      y = x
      for b in batches(problem, i):
        y = y - eta_l * (g(problem, y, b) + mu * (y - x))
      Delta.append(x - y)
    x = x - at(server_learning_rate, t) * E(Delta)
    after[t] = x
  return trace(problem, cohorts, after)


def fedmax(problem, cohorts, **hyperparameters) -> Trace:
  """FedAvg on a problem whose gradient already includes α times that of `max_entropy_penalty`."""
  return fedavg(problem, cohorts, **hyperparameters)


def max_entropy_penalty(
  activations: np.ndarray, direction: str = "forward"
) -> tuple[float, np.ndarray]:
  """FedMAX's regulariser without α, averaged over the rows, and its gradient in the activations.

  forward: KL(softmax(a) ‖ uniform) = Σ p log p + log n. reverse: KL(uniform ‖ softmax(a))
  = −log n − (1/n) Σ log p.
  """
  n, rows = activations.shape[-1], np.prod(activations.shape[:-1])
  a = activations - activations.max(axis=-1, keepdims=True)
  log_p = a - np.log(np.exp(a).sum(axis=-1, keepdims=True))
  p = np.exp(log_p)
  if direction == "forward":
    negative_entropy = (p * log_p).sum(axis=-1, keepdims=True)
    return float(negative_entropy.mean() + np.log(n)), p * (log_p - negative_entropy) / rows
  if direction == "reverse":
    return float(-np.log(n) - log_p.mean()), (p - 1 / n) / rows
  raise ValueError(f"Expected direction 'forward' or 'reverse', found {direction!r}.")


def fedavg_lm(
  problem,
  cohorts,
  *,
  client_learning_rate,
  beta_l,
  server_learning_rate=1.0,
  client_weighting="uniform",
) -> Trace:
  """Local momentum, then as fedavg."""
  x, after = problem.x0, {}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    Delta = [local_momentum(problem, i, x, eta_l, beta_l) for i in S]
    x = x - at(server_learning_rate, t) * E(Delta)
    after[t] = x
  return trace(problem, cohorts, after)


def fedavg_glm(
  problem,
  cohorts,
  *,
  client_learning_rate,
  beta,
  beta_l,
  server_learning_rate=1.0,
  client_weighting="uniform",
) -> Trace:
  """Local momentum, and m ← βm + E[Δ], x⁺ = x − ηm at the server."""
  x, m, after = problem.x0, np.zeros_like(problem.x0), {}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    m = beta * m + E([local_momentum(problem, i, x, eta_l, beta_l) for i in S])
    x = x - at(server_learning_rate, t) * m
    after[t] = x
  return trace(problem, cohorts, after, {"m": m})


def fedavgm(
  problem,
  cohorts,
  *,
  client_learning_rate,
  beta,
  server_learning_rate=1.0,
  client_weighting="uniform",
) -> Trace:
  """m ← βm + E[Δ], x⁺ = x − ηm."""
  x, m, after = problem.x0, np.zeros_like(problem.x0), {}
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    m = beta * m + E([local_sgd(problem, i, x, eta_l) for i in S])
    x = x - at(server_learning_rate, t) * m
    after[t] = x
  return trace(problem, cohorts, after, {"m": m})
