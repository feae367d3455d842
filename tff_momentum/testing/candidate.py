"""An algorithm under test: it is built once, and all checks look at the same runs."""

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

from tff_momentum.algorithm import Algorithm
from tff_momentum.client import LocalWork
from tff_momentum.processes.process import FederatedProcess, build_process
from tff_momentum.testing import quadratics, runtimes
from tff_momentum.testing.oracle import Cohorts
from tff_momentum.testing.outcomes import ContractError
from tff_momentum.testing.runs import RecordedRun, Start, as_arrays, run_process

_STOP = 10  # rounds before the checkpoint


class ContractRuns(NamedTuple):
  """The runs of one algorithm that the checks look at.

  Attributes:
    whole: all rounds.
    again: the first two rounds with the same seeds, built a second time.
    resumed: the three rounds after the checkpoint, resumed from it.
    beside: the first three rounds, with clients without data in every cohort.
    nobody: one round after the same checkpoint, of clients without data only.
    checkpoint: the number of rounds before the checkpoint.
  """

  whole: RecordedRun
  again: RecordedRun
  resumed: RecordedRun
  beside: RecordedRun
  nobody: RecordedRun
  checkpoint: int = _STOP


class Candidate:
  """A builder with its hyperparameters, its process, and its runs on the quadratics."""

  def __init__(self, builder: Callable[..., Algorithm], hyperparameters: Mapping[str, Any]):
    """Adds an example value for each parameter that describes the problem and is not given.

    Raises:
      ValueError: The builder requires a parameter that has neither a value nor an example.
    """
    self.builder = builder
    self.name = getattr(builder, "__name__", "the builder")
    parameters = inspect.signature(builder).parameters
    examples = {name: v for name, v in quadratics.EXAMPLES.items() if name in parameters}
    self.hyperparameters = {**examples, **hyperparameters}
    for name, parameter in parameters.items():
      required = parameter.default is inspect.Parameter.empty and parameter.kind not in (
        inspect.Parameter.VAR_KEYWORD,
        inspect.Parameter.VAR_POSITIONAL,
      )
      if required and name not in self.hyperparameters:
        raise ValueError(
          f"Expected a value for {self.name}'s parameter {name}, which has no default; found none: pass "
          f"it to the check, as in check_algorithm({self.name}, {name}=...)."
        )

  def build(self) -> FederatedProcess:
    """Builds the process from a new algorithm.

    Raises:
      ContractError: The builder returns something else, or the algorithm's parts do not fit together.
    """
    algorithm = self.builder(**self.hyperparameters)
    if not isinstance(algorithm, Algorithm):
      raise ContractError(
        f"Expected {self.name} to return a tff_momentum.Algorithm; found {type(algorithm).__name__}."
      )
    work = LocalWork(epochs=2, weight_decay=1e-3)
    try:
      return build_process(algorithm, quadratics.quadratic_model(), work=work)
    except Exception as error:
      raise ContractError(
        f"The algorithm does not build: {_sentence(error)} The server's and the clients' states must keep "
        "their structure, shapes and dtypes from round to round."
      ) from error

  @functools.cached_property
  def process(self) -> FederatedProcess:
    """The process that the checks share."""
    return self.build()

  @functools.cached_property
  def runs(self) -> ContractRuns:
    """The runs of the process, in this process."""
    process = self.process

    def run(cohorts: Cohorts, start: Start | None = None, process=process) -> RecordedRun:
      return run_process(process, cohorts, dataset=quadratics.dataset, start=start)

    with runtimes.installed("inprocess"):
      first = run(quadratics.COHORTS[:_STOP])
      kept = {i: as_arrays(state) for i, state in first.clients.items()}
      checkpoint = (as_arrays(first.states[-1]), kept, _STOP)
      rest = run(quadratics.COHORTS[_STOP:], (first.states[-1], first.clients, _STOP))
      whole = RecordedRun(
        first.x + rest.x,
        first.states + rest.states,
        rest.clients,
        first.metrics + rest.metrics,
        process,
      )
      left, right = quadratics.EMPTY
      return ContractRuns(
        whole,
        again=run(quadratics.COHORTS[:2], process=self.build()),
        resumed=run(quadratics.COHORTS[_STOP : _STOP + 3], checkpoint),
        beside=run([(left, *cohort, right) for cohort in quadratics.COHORTS[:3]]),
        nobody=run([quadratics.EMPTY], checkpoint),
      )


def _sentence(error: Exception) -> str:
  """The error in one line that ends with a full stop."""
  text = " ".join(str(error).split()) or type(error).__name__
  return text if text.endswith(".") else f"{text[:600]}."
