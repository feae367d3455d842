"""The base optimizers as (start, U, V, I), written from FedGBO, Table 2, with √v + ε and g² throughout.

`step` is U (the model moves by −η_l U), `track` is V, `inverse` is I: the mean gradient from
D = (x − x⁺)/(η_l K). `moving` is MFL's direction, from statistics that were just tracked.
Statistics are dicts by letter. U divides by the *old* v.
"""

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

Statistics = dict[str, np.ndarray]
Rule = Callable[[np.ndarray, Statistics], np.ndarray]


class Optimizer(NamedTuple):
  """One base optimizer."""

  start: Callable[[np.ndarray], Statistics]  # from any array of the model's shape
  step: Rule  # U(g, s)
  track: Callable[[np.ndarray, Statistics], Statistics]  # V(g, s)
  inverse: Rule  # I(D, s)
  moving: Rule  # MFL: the direction once s is V(g, s)


class Mvr(NamedTuple):
  """Variance reduction: it needs gradients at two points, so only fedsgd accepts it."""

  a: float


def mvr(a: float) -> Mvr:
  """m ← a g(x) + (1−a)(m + g(x) − g(x₋)), step m."""
  return Mvr(a)


def sgd() -> Optimizer:
  """Plain gradient descent: no statistics."""
  return Optimizer(
    start=lambda x: {},
    step=lambda g, s: g,
    track=lambda g, s: {},
    inverse=lambda D, s: D,
    moving=lambda g, s: g,
  )


def sgdm(beta: float, dampened: bool = False) -> Optimizer:
  """Momentum as Mime writes it, or dampened by 1 − β as FedGBO does."""
  share = 1 - beta if dampened else 1.0
  return Optimizer(
    start=lambda x: {"m": np.zeros_like(x)},
    step=lambda g, s: share * g + beta * s["m"],
    track=lambda g, s: {"m": share * g + beta * s["m"]},
    inverse=lambda D, s: (D - beta * s["m"]) / share,
    moving=lambda g, s: s["m"],
  )


def rmsprop(beta: float, epsilon: float = 1e-3, v0: float = 1.0) -> Optimizer:
  """RMSProp."""
  return Optimizer(
    start=lambda x: {"v": np.full_like(x, v0)},
    step=lambda g, s: g / (np.sqrt(s["v"]) + epsilon),
    track=lambda g, s: {"v": beta * s["v"] + (1 - beta) * g**2},
    inverse=lambda D, s: D * (np.sqrt(s["v"]) + epsilon),
    moving=lambda g, s: g / (np.sqrt(s["v"]) + epsilon),
  )


def adagrad(epsilon: float = 1e-3, v0: float = 1.0) -> Optimizer:
  """Adagrad."""
  return Optimizer(
    start=lambda x: {"v": np.full_like(x, v0)},
    step=lambda g, s: g / (np.sqrt(s["v"]) + epsilon),
    track=lambda g, s: {"v": s["v"] + g**2},
    inverse=lambda D, s: D * (np.sqrt(s["v"]) + epsilon),
    moving=lambda g, s: g / (np.sqrt(s["v"]) + epsilon),
  )


def adam(beta1: float, beta2: float, epsilon: float = 1e-3, v0: float = 1.0) -> Optimizer:
  """Adam without bias correction."""
  return Optimizer(
    start=lambda x: {"m": np.zeros_like(x), "v": np.full_like(x, v0)},
    step=lambda g, s: (beta1 * s["m"] + (1 - beta1) * g) / (np.sqrt(s["v"]) + epsilon),
    track=lambda g, s: {
      "m": beta1 * s["m"] + (1 - beta1) * g,
      "v": beta2 * s["v"] + (1 - beta2) * g**2,
    },
    inverse=lambda D, s: (D * (np.sqrt(s["v"]) + epsilon) - beta1 * s["m"]) / (1 - beta1),
    moving=lambda g, s: s["m"] / (np.sqrt(s["v"]) + epsilon),
  )
