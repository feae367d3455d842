"""The checks of the contract that run an algorithm on other runtimes, or look at what a GPU would run."""

from collections.abc import Callable
from typing import Any

from tff_momentum.testing import gpu, quadratics, runtimes
from tff_momentum.testing.candidate import Candidate
from tff_momentum.testing.outcomes import OTHER_STATE, ContractError
from tff_momentum.testing.runs import as_arrays, first_difference, run_process

_TOLERANCE = 1e-5


def check_parallel_clients(candidate: Candidate) -> None:
  """In process, the bits do not depend on how many clients train at the same time."""
  one, three = (_three_rounds(candidate, "inprocess", clients) for clients in (1, 3))
  if (found := first_difference(one, three)) is not None:
    raise ContractError(
      "Expected the same bits with one client and with three clients at a time; found that "
      f"{found}. {OTHER_STATE}"
    )


def check_tff_worker(candidate: Candidate) -> None:
  """TFF's own worker gives the same results, up to rounding."""
  _compare_with_inprocess(candidate, "tff", "TFF's worker", _TOLERANCE)


def check_ray(candidate: Candidate) -> None:
  """A Ray cluster gives the same bits."""
  _compare_with_inprocess(candidate, "ray", "a Ray cluster", None)


def check_gpu_audit(candidate: Candidate) -> None:
  """On a GPU, every operation of the clients would have a kernel, and no tensor would leave it in a step."""
  gpu.audit(candidate)


def _compare_with_inprocess(
  candidate: Candidate, runtime: str, where: str, tolerance: float | None
) -> None:
  there = _three_rounds(candidate, runtime)
  here = _three_rounds(candidate, "inprocess", 1)
  if (found := first_difference(here, there, tolerance)) is not None:
    raise ContractError(
      f"Expected {where} to give the results of this process; found that {found}. {OTHER_STATE}"
    )


def _three_rounds(candidate: Candidate, runtime: str, clients: int | None = None) -> Any:
  """The states, the metrics and the clients' states of three rounds on a runtime."""
  with runtimes.installed(runtime, clients):
    run = run_process(candidate.process, quadratics.COHORTS[:3], dataset=quadratics.dataset)
    return as_arrays({"states": run.states, "metrics": run.metrics, "clients": run.clients})


FUNCTIONS: dict[str, Callable[[Candidate], None]] = {
  "parallel_clients": check_parallel_clients,
  "tff_worker": check_tff_worker,
  "ray": check_ray,
  "gpu_audit": check_gpu_audit,
}
