"""Adaptive server steps: Reddi et al. 2021, Algorithm 2, on E[Δ]. No bias correction."""

from collections.abc import Callable
from typing import Any

import numpy as np

from tests.oracle.problem import Problem, Rate, Trace, at, mean, rounds, trace
from tests.oracle.server_step import local_sgd


def _reddi(
  problem: Problem,
  cohorts,
  second_moment: Callable[[np.ndarray, np.ndarray], np.ndarray],
  client_learning_rate: Rate,
  server_learning_rate: Rate,
  beta1: float,
  epsilon: float,
  v0: float | None,
  client_weighting: str,
) -> Trace:
  """Reddi et al. 2021, Algorithm 2: the step divides by the *new* v, which starts at ε²."""
  x, m, after = problem.x0, np.zeros_like(problem.x0), {}
  v = np.full_like(x, epsilon**2 if v0 is None else v0)
  for t, S in rounds(problem, cohorts):
    E, eta_l = mean(problem, S, client_weighting), at(client_learning_rate, t)
    Delta = E([local_sgd(problem, i, x, eta_l) for i in S])
    m = beta1 * m + (1 - beta1) * Delta
    v = second_moment(v, Delta)
    x = x - at(server_learning_rate, t) * m / (np.sqrt(v) + epsilon)
    after[t] = x
  return trace(problem, cohorts, after, {"m": m, "v": v})


def fedadagrad(
  problem,
  cohorts,
  *,
  client_learning_rate,
  server_learning_rate=1.0,
  beta1=0.0,
  epsilon=1e-3,
  v0=None,
  client_weighting="uniform",
) -> Trace:
  """v ← v + E[Δ]²."""
  rest: Any = (client_learning_rate, server_learning_rate, beta1, epsilon, v0, client_weighting)
  return _reddi(problem, cohorts, lambda v, Delta: v + Delta**2, *rest)


def fedadam(
  problem,
  cohorts,
  *,
  client_learning_rate,
  server_learning_rate=1.0,
  beta1=0.9,
  beta2=0.99,
  epsilon=1e-3,
  v0=None,
  client_weighting="uniform",
) -> Trace:
  """v ← β₂v + (1−β₂)E[Δ]²."""
  rest: Any = (client_learning_rate, server_learning_rate, beta1, epsilon, v0, client_weighting)
  return _reddi(problem, cohorts, lambda v, Delta: beta2 * v + (1 - beta2) * Delta**2, *rest)


def fedyogi(
  problem,
  cohorts,
  *,
  client_learning_rate,
  server_learning_rate=1.0,
  beta1=0.9,
  beta2=0.99,
  epsilon=1e-3,
  v0=None,
  client_weighting="uniform",
) -> Trace:
  """v ← v − (1−β₂)E[Δ]² sign(v − E[Δ]²)."""

  def yogi(v, Delta):
    return v - (1 - beta2) * Delta**2 * np.sign(v - Delta**2)

  rest: Any = (client_learning_rate, server_learning_rate, beta1, epsilon, v0, client_weighting)
  return _reddi(problem, cohorts, yogi, *rest)


def fedrmsprop(problem, cohorts, **hyperparameters) -> Trace:
  """FedAdam with β₁ = 0."""
  return fedadam(problem, cohorts, beta1=0.0, **hyperparameters)
