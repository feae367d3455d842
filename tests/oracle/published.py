"""The published recursions of SNV, PID, ASGD and triple momentum.

Each returns the points at which the scheme takes its gradients, after 1, 2, ... steps. The server's
models of `fedsnv`, `fedpid`, `fedasgd` and `fedtm` must equal them.
"""

from collections.abc import Callable

import numpy as np

Gradient = Callable[[np.ndarray], np.ndarray]


def snv(
  gradient: Gradient, x0: np.ndarray, steps: int, alpha: float, beta1: float, beta2: float
) -> list[np.ndarray]:
  """ξ⁺ = ξ + β₁(ξ−ξ₋) − αg(y), y = ξ + β₂(ξ−ξ₋) (Lessard, Recht and Packard)."""
  before, now, points = x0, x0, []
  for _ in range(steps):
    y = now + beta2 * (now - before)
    before, now = now, now + beta1 * (now - before) - alpha * gradient(y)
    points.append(now + beta2 * (now - before))
  return points


def pid(
  gradient: Gradient, x0: np.ndarray, steps: int, k_p: float, k_i: float, k_d: float, beta: float
) -> list[np.ndarray]:
  """e = −g, v ← βv + (1−β)(e−e₋), θ = θ₀ + k_P e + k_I Σe + k_D v; e is 0 before the start."""
  theta, points = x0, []
  e_minus = total = v = np.zeros_like(x0)
  for _ in range(steps):
    e = -gradient(theta)
    v = beta * v + (1 - beta) * (e - e_minus)
    total, e_minus = total + e, e
    theta = x0 + k_p * e + k_i * total + k_d * v
    points.append(theta)
  return points


def asgd(
  gradient: Gradient,
  x0: np.ndarray,
  steps: int,
  delta: float,
  kappa: float,
  xi: float,
  epsilon: float = 0.7,
) -> list[np.ndarray]:
  """The two sequences w, w̄ of Kidambi et al., Algorithm 1, from w̄ = w = x⁰."""
  a = 1 - epsilon**2 * xi / kappa
  w, w_bar, points = x0, x0, []
  for _ in range(steps):
    slope = gradient(w)
    w_bar = a * w_bar + (1 - a) * (w - kappa * delta / epsilon * slope)
    w = (epsilon * (w - delta * slope) + (1 - a) * w_bar) / (epsilon + 1 - a)
    points.append(w)
  return points


def triple_momentum(
  gradient: Gradient, x0: np.ndarray, steps: int, L: float, kappa: float
) -> list[np.ndarray]:
  """ξ⁺ = (1+β)ξ − βξ₋ − αg(y), y = (1+γ)ξ − γξ₋ (Van Scoy, Freeman and Lynch)."""
  rho = 1 - 1 / np.sqrt(kappa)
  alpha, beta = (1 + rho) / L, rho**2 / (2 - rho)
  gamma = rho**2 / ((1 + rho) * (2 - rho))
  before, now, points = x0, x0, []
  for _ in range(steps):
    y = (1 + gamma) * now - gamma * before
    before, now = now, (1 + beta) * now - beta * before - alpha * gradient(y)
    points.append((1 + gamma) * now - gamma * before)
  return points
