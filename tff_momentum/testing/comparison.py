"""Compares an algorithm with a NumPy version of it that shares no code."""

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from tff_momentum.algorithm import Algorithm
from tff_momentum.client import LocalWork
from tff_momentum.processes.process import build_process
from tff_momentum.testing import runtimes, softmax
from tff_momentum.testing.oracle import Cohorts, OracleProblem, OracleTrace
from tff_momentum.testing.outcomes import ContractError
from tff_momentum.testing.runs import run_process

Oracle = Callable[..., OracleTrace | Sequence[np.ndarray]]
_WORK = LocalWork(epochs=2, weight_decay=0.1)


def compare_with_oracle(
  builder: Callable[..., Algorithm],
  oracle: Oracle,
  /,
  *,
  cohorts: Cohorts = softmax.COHORTS,
  work: LocalWork = _WORK,
  tolerance: float = 1e-5,
  **hyperparameters: Any,
) -> None:
  """Runs an algorithm and a plain NumPy function on the same clients and compares the models of all rounds.

  The problem is softmax regression on five clients with 7, 4, 1, 12 and 0 examples, in batches of three. In
  each of three rounds, three of them take part; the one without examples takes part in the second round.
  Clients take at least two local steps.

  Args:
    builder: Returns the algorithm; its keyword arguments are the hyperparameters.
    oracle: `oracle(problem, cohorts, **hyperparameters)` returns the flat model, float64, after each round,
      or an `OracleTrace`. `problem` is an `OracleProblem`; `tff_momentum.testing.oracle` has helpers.
    cohorts: The client numbers of each round.
    work: The clients' local work; the problem has the same.
    tolerance: An absolute plus a relative tolerance for each weight.
    **hyperparameters: Arguments of both.

  Raises:
    ContractError: The models differ; the message says in which round and by how much.
  """
  problem = oracle_problem(work)
  process = build_process(builder(**hyperparameters), softmax.softmax_model(), work=work)
  with runtimes.installed("inprocess"):
    found = run_process(process, cohorts, dataset=softmax.client_dataset).x
  result = oracle(problem, cohorts, **hyperparameters)
  expected = result.x if isinstance(result, OracleTrace) else list(result)
  if len(expected) != len(cohorts):
    raise ContractError(
      f"Expected the oracle to return a model for each of {len(cohorts)} rounds; found {len(expected)}."
    )
  before = problem.x0
  for t, (ours, theirs) in enumerate(zip(found, expected, strict=True)):
    theirs = np.asarray(theirs, np.float64)
    if theirs.shape != ours.shape:
      raise ContractError(
        f"Expected a flat model of {ours.size} weights from the oracle; found shape {theirs.shape}."
      )
    if not np.allclose(ours, theirs, rtol=tolerance, atol=tolerance):
      raise ContractError(
        _difference(getattr(builder, "__name__", "the builder"), t, before, ours, theirs)
      )
    before = ours


def oracle_problem(work: LocalWork = _WORK) -> OracleProblem:
  """The problem that `compare_with_oracle` gives to an oracle.

  Raises:
    ValueError: The work gives each client its own number of steps, which the problem does not have.
  """
  if work.uneven:
    raise ValueError("Expected work with the same steps for all clients; found uneven=True.")
  return softmax.oracle_problem(
    epochs=work.epochs, steps=work.steps, weight_decay=work.weight_decay, clip_norm=work.clip_norm
  )


def _difference(name: str, t: int, before: np.ndarray, ours: np.ndarray, theirs: np.ndarray) -> str:
  step, expected = ours - before, theirs - before
  lengths = np.linalg.norm(step) * np.linalg.norm(expected)
  cosine = float(step @ expected / lengths) if lengths > 0 else float("nan")
  said = (
    f"Expected {name} and its oracle to have the same model after every round; found that they differ by "
    f"{np.abs(ours - theirs).max():.2g} after round {t}."
  )
  if cosine < -0.99:
    return f"{said} The steps point in opposite directions: look for a wrong sign."
  if cosine > 1 - 1e-6:
    ratio = np.linalg.norm(step) / np.linalg.norm(expected)
    return (
      f"{said} The steps have the same direction, and {name}'s is {ratio:.3g} times as long: look for a "
      "factor, such as a learning rate or a number of clients."
    )
  cause = (
    "look at the clients' local steps and at the weights of the mean (client_weighting)"
    if t == 0
    else "the rounds before agree, so look at the state that is kept between rounds"
  )
  return f"{said} The cosine of the two steps is {cosine:.4f}: {cause}."
