"""Shared by the oracles' own tests: a small federated problem, and comparisons of two runs."""

import numpy as np

from tests.oracle import ORACLES, Problem, Trace, least_squares
from tests.oracle import base_optimizers as base
from tests.oracle.problem import G, examples

SIZES = (7, 4, 9, 0, 5, 2)  # ragged last batches, and a client without examples
COHORTS = [[0, 1, 3], [2, 4], [3], [5, 0, 2], [1, 4, 5]]  # nobody has examples in the third round
EVERYONE = [list(range(len(SIZES)))] * 5
LR = {"client_learning_rate": 0.07}
BASES = {
  "sgd": base.sgd(),
  "sgdm": base.sgdm(0.8),
  "dampened": base.sgdm(0.8, dampened=True),
  "rmsprop": base.rmsprop(0.7),
  "adagrad": base.adagrad(),
  "adam": base.adam(0.6, 0.9),
}


def curved(**fields) -> Problem:
  """Not quadratic, so that an identity cannot hold by linearity alone."""
  problem = least_squares(1, SIZES, **{"epochs": 2, "weight_decay": 0.05, **fields})
  return problem._replace(gradient=lambda y, b: b[0].T @ np.tanh(b[0] @ y - b[1]) / len(b[1]))


def run(name, problem=None, cohorts=COHORTS, **hyperparameters) -> Trace:
  """Runs the oracle `name`, by default on the curved problem with the cohorts above."""
  return ORACLES[name](problem or curved(), cohorts, **hyperparameters)


def assert_same(left: Trace, right: Trace) -> None:
  """The same model after every round."""
  assert len(left.x) == len(right.x) > 0
  assert all(np.isfinite(x).all() for x in left.x)
  np.testing.assert_allclose(left.x, right.x, rtol=1e-9, atol=1e-12)


def assert_differs(left: Trace, right: Trace) -> None:
  """The models differ, so the case can tell the two apart."""
  assert np.abs(np.array(left.x) - np.array(right.x)).max() > 1e-4


def optimum(problem, weights) -> np.ndarray:
  """The zero of Σ w_i G_i for least squares, solved as an affine map from its values on a basis."""
  clients = [i for i in range(len(problem.clients)) if examples(problem, i)]
  basis = np.eye(len(problem.x0))

  def total(x):
    return sum(weights(i) * G(problem, i, x) for i in clients)

  offset = total(0 * problem.x0)
  return np.linalg.solve(np.stack([total(e) - offset for e in basis], axis=1), -offset)


def one_batch(**fields) -> Problem:
  """The curved problem with one batch per client: then g(x; b) is G_i(x)."""
  problem = curved(**fields)
  return problem._replace(clients=[client[:1] for client in problem.clients])
