"""The papers' measurements in float64, written from their definitions; no code is shared with the library.

A local step is a function (i, carry, g) -> carry, where carry[0] is y and g(y) a gradient of client i.
"""

from collections.abc import Callable, Sequence
from itertools import combinations
from typing import Any

import numpy as np

from tests.oracle.problem import G as full_gradient
from tests.oracle.problem import Problem, batches, g

Step = Callable[[int, tuple, Callable[[np.ndarray], np.ndarray]], tuple]


def trajectories(problem: Problem, S: Sequence[int], start: Callable[[int], tuple], step: Step):
  """For each client, its carry before every local step and after the last: lists of K_i + 1."""
  paths = {}
  for i in S:
    carry, path = start(i), []
    for b in batches(problem, i):
      path.append(carry)
      carry = step(i, carry, lambda y, b=b: g(problem, y, b))
    paths[i] = [*path, carry]
  return paths


def drift(
  problem: Problem, S: Sequence[int], start: Callable[[int], tuple], step: Step, full: bool
) -> float:
  """GHBM, Definition 3.1, at the points where gradients are taken; the shadow steps as one."""
  paths = trajectories(problem, S, start, step)
  steps = {i: len(batches(problem, i)) for i in S}
  shadow = tuple(np.mean([start(i)[n] for i in S], axis=0) for n in range(len(start(S[0]))))
  total = dict.fromkeys(S, 0.0)
  for k in range(max(steps.values())):
    walking = [i for i in S if steps[i] > k]
    for i in walking:
      total[i] += np.sum((paths[i][k][0] - shadow[0]) ** 2)
    moved = []
    for i in walking:
      gradient = gradient_of(problem, i, k, full)
      moved.append(step(i, shadow, gradient))
    shadow = tuple(np.mean([carry[n] for carry in moved], axis=0) for n in range(len(shadow)))
  return float(np.mean([total[i] / steps[i] for i in S]))


def alpha(
  problem: Problem, S: Sequence[int], start: Callable[[int], tuple], step: Step, full: bool
) -> tuple[float, float]:
  """FedGLOMO, Assumption 4: α, and α/n, each the largest over the steps after the first."""
  paths = trajectories(problem, S, start, step)
  steps = {i: len(batches(problem, i)) for i in S}
  found = []
  for k in range(1, max(steps.values())):
    walking = [i for i in S if steps[i] > k]
    mean = np.mean([paths[i][k][0] for i in walking], axis=0)
    errors = []
    for i in walking:
      gradient = gradient_of(problem, i, k, full)
      errors.append(gradient(paths[i][k][0]) - gradient(mean))
    single = sum(np.sum(e**2) for e in errors)
    if single > 0:
      found.append((np.sum(sum(errors) ** 2) / single, len(walking)))
  return max(a for a, _ in found), max(a / n for a, n in found)


def gradient_of(problem: Problem, i: int, k: int, full: bool) -> Callable[[np.ndarray], np.ndarray]:
  """Client i's gradient in step k: of that step's batch, or of all its data."""
  if full:
    return lambda y: full_gradient(problem, i, y)
  return lambda y: g(problem, y, batches(problem, i)[k])


def cosine_distance(models: Sequence[np.ndarray]) -> float:
  """FedGBO, Figure 1: the mean over all pairs."""
  pairs = [1 - a @ b / (np.linalg.norm(a) * np.linalg.norm(b)) for a, b in combinations(models, 2)]
  return float(np.mean(pairs))


def dissimilarity(problem: Problem, S: Sequence[int], x: np.ndarray) -> dict[str, Any]:
  """SCAFFOLD and Mime: G for B = 1, B for G = 0, and δ from full Hessians by central differences."""
  gradients = [full_gradient(problem, i, x) for i in S]
  mean = np.mean(gradients, axis=0)
  hessians = [_hessian(lambda y, i=i: full_gradient(problem, i, y), x) for i in S]
  H = np.mean(hessians, axis=0)
  square = np.mean([np.sum(v**2) for v in gradients])
  return {
    "G": float(np.sqrt(np.mean([np.sum((v - mean) ** 2) for v in gradients]))),
    "B": float(np.sqrt(square) / np.linalg.norm(mean)),
    "delta": max(float(np.abs(np.linalg.eigvalsh(Hi - H)).max()) for Hi in hessians),
  }


def _hessian(gradient: Callable[[np.ndarray], np.ndarray], x: np.ndarray) -> np.ndarray:
  small = 1e-5
  columns = [
    (gradient(x + small * e) - gradient(x - small * e)) / (2 * small) for e in np.eye(len(x))
  ]
  H = np.stack(columns, axis=1)
  return (H + H.T) / 2
