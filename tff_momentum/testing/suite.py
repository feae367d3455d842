"""Runs the checks of the contract on an algorithm: all of them, or one by name."""

from collections.abc import Callable, Collection, Mapping
from typing import Any

from tff_momentum.algorithm import Algorithm
from tff_momentum.testing import CHECKS, contract, runtime_checks
from tff_momentum.testing.candidate import Candidate
from tff_momentum.testing.outcomes import CheckReport, ContractError, SkippedCheck

# Checks that compare two runs: if these differ by chance, they can say nothing.
_COMPARE = ("resume", "empty_clients", "non_finite", "parallel_clients", "tff_worker", "ray")
FUNCTIONS = {**contract.FUNCTIONS, **runtime_checks.FUNCTIONS}


def check_algorithm(
  builder: Callable[..., Algorithm],
  /,
  *,
  without: Collection[str] = (),
  **hyperparameters: Any,
) -> CheckReport:
  """Checks an algorithm in every way in which this library checks its own.

  The algorithm runs on quadratics of eight clients, two of which have no examples. The checks, by name:

  * types: states and messages keep their structure, shapes and dtypes;
  * seeds: two runs with the same seeds are bit-identical;
  * resume: a resumed run is bit-identical to one that never stopped;
  * empty_clients, empty_round: clients without examples, and rounds of them, change nothing;
  * dropouts: training goes on when clients drop out;
  * non_finite: a client whose gradients are NaN is left out;
  * bytes: the bytes on the wire follow from the types;
  * loss: the loss falls;
  * parallel_clients, tff_worker, ray: the results are the same on every runtime;
  * gpu_audit: a GPU would run every operation of a client, without copies in a local step.

  Example:
    >>> import tff_momentum as tfm
    >>> others = ("tff_worker", "ray", "gpu_audit")  # they start other processes
    >>> print(check_algorithm(tfm.algorithms.fedavgm, without=others, beta=0.5))
    fedavgm passed 10 checks: types, seeds, resume, empty_clients, empty_round, dropouts, non_finite, bytes, loss, parallel_clients.

  Args:
    builder: Returns the algorithm; its keyword arguments are the hyperparameters.
    without: Names of checks to leave out.
    **hyperparameters: Arguments of the builder. `client_learning_rate`, `num_clients`, `total_examples` and
      `participation` have values that suit the problem, if the builder takes them.

  Returns:
    Which checks passed, and which were skipped for which reason.

  Raises:
    ContractError: At least one check failed; the message has a paragraph for each.
    ValueError: A required hyperparameter or a check's name is unknown.
  """  # noqa: E501 (the line that the example prints)
  for name in without:
    _known(name)
  candidate = _candidate(builder, hyperparameters)
  candidate.process  # noqa: B018 (what does not build fails once, not in every check)
  failed: dict[str, str] = {}
  skipped: dict[str, str] = {}
  chosen = [name for name in CHECKS if name not in without]
  for name in chosen:
    if name in _COMPARE and ("seeds" in failed or "resume" in failed):
      continue
    try:
      _run(name, candidate)
    except SkippedCheck as reason:
      skipped[name] = str(reason)
    except ContractError as error:
      failed[name] = str(error)
  if failed:
    told = "\n".join(f"{name}: {message}" for name, message in failed.items())
    left = [name for name in chosen if name in _COMPARE and name not in {*failed, *skipped}]
    if left and ("seeds" in failed or "resume" in failed):
      told += f"\nNot run, because they compare runs that differ anyway: {', '.join(left)}."
    raise ContractError(f"{candidate.name} failed {len(failed)} of {len(chosen)} checks.\n{told}")
  passed = tuple(name for name in chosen if name not in skipped)
  return CheckReport(candidate.name, passed, skipped)


def run_check(name: str, builder: Callable[..., Algorithm], /, **hyperparameters: Any) -> None:
  """Runs one check of `CHECKS`; the checks of one algorithm share its runs.

  Args:
    name: The name of the check.
    builder: As for `check_algorithm`.
    **hyperparameters: As for `check_algorithm`.

  Raises:
    ContractError: The check failed.
    SkippedCheck: The check cannot run here.
    ValueError: A required hyperparameter or the check's name is unknown.
  """
  _run(_known(name), _candidate(builder, hyperparameters))


def _run(name: str, candidate: Candidate) -> None:
  """Runs a check; any error that the algorithm raises while it runs is a failure of the check."""
  try:
    FUNCTIONS[name](candidate)
  except (ContractError, SkippedCheck):
    raise
  except Exception as error:
    text = " ".join(str(error).split())[:600]
    raise ContractError(
      f"Expected {candidate.name} to run; found {type(error).__name__}: {text}"
    ) from error


def _known(name: str) -> str:
  if name not in CHECKS:
    raise ValueError(f"Expected one of the checks {', '.join(CHECKS)}; found {name!r}.")
  return name


def _candidate(builder: Callable[..., Algorithm], hyperparameters: Mapping[str, Any]) -> Candidate:
  """Keeps the latest candidate, because the checks of one algorithm follow one another."""
  key = (builder, repr(sorted(hyperparameters.items())))
  if key not in _latest:
    _latest.clear()
    _latest[key] = Candidate(builder, hyperparameters)
  return _latest[key]


_latest: dict[tuple[Callable[..., Algorithm], str], Candidate] = {}
