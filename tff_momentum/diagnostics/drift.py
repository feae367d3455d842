"""Client drift (GHBM, Definition 3.1) and α (FedGLOMO, Assumption 4), measured in one pass over the steps.

    y_i^k   client i before its local step k, counted from 0: the point where it takes its gradient
    θ^k     the shadow iterate: all clients take step k from θ^k, each on its own batch, and are averaged
    drift   = mean over i and k of ‖y_i^k − θ^k‖²
    α       = max over k ≥ 1 of ‖Σ_i e_i^k‖² / Σ_i ‖e_i^k‖²,   e_i^k = ∇f_i(y_i^k) − ∇f_i(ȳ^k)

The shadow takes the algorithm's own step, so the drift measures how the clients differ from each other; with
plain SGD steps it is the definition in the paper, including its learning rate. If clients take different
numbers of steps, each step is measured over the clients that take it.
"""

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from tff_momentum import validation
from tff_momentum.diagnostics import cohort_steps
from tff_momentum.diagnostics.cohort_steps import StepResult
from tff_momentum.diagnostics.local_steps import LocalSteps
from tff_momentum.models.model import Weights
from tff_momentum.processes.process import ClientInput, FederatedProcess, ProcessState

GRADIENTS = ("batch", "full")


class DriftResult(NamedTuple):
  """What a cohort's local steps show.

  Attributes:
    drift: the client drift.
    alpha: α; None if no client took a second step, or all clients are at the same point.
    alpha_per_client: α/n, n being the number of clients measured; None as α.
    models: the last models of the clients with data.
  """

  drift: float
  alpha: float | None
  alpha_per_client: float | None
  models: list[Weights]


class ClientDrift:
  """Measures client drift and α: the whole cohort takes its local steps in lockstep."""

  def __init__(
    self,
    process: FederatedProcess,
    *,
    drift: bool = True,
    alpha: bool = True,
    gradients: str = "batch",
  ):
    """Compiles the computations.

    Args:
      process: the process whose local steps to measure.
      drift: whether to measure the drift; if not, it is reported as 0.
      alpha: whether to measure α; if not, it is reported as None.
      gradients: the gradients of the shadow and of α. "batch" uses the batch of the step; "full" uses all of
        the client's data, as both papers do, and costs a pass over the data in each step.

    Raises:
      ValueError: if the algorithm's clients take no local steps, or are asynchronous.
    """
    validation.one_of("gradients", gradients, GRADIENTS)
    types = process.next.type_signature.parameter
    steps = LocalSteps(process)
    self._num_tensors = len(process.model.initial_weights)
    self._read = cohort_steps.read(steps, *types)
    self._begin = cohort_steps.begin(steps, *types)
    self._step = cohort_steps.step(steps, self._begin, drift, alpha, full=gradients == "full")

  def __call__(self, state: ProcessState, clients: Sequence[ClientInput]) -> DriftResult:
    """Measures one round's local steps.

    Args:
      state: the process's state at the start of the round.
      clients: the cohort. Its data sets must not have been read before, because they shuffle differently each
        time they are read.

    Returns:
      The drift, α, and the models that the clients end with.
    """
    drift, ratios, models = 0.0, [], []
    for k, (result, latest) in enumerate(self.steps(state, clients)):
      models = latest
      drift += float(result.distance)
      if k and float(result.single) > 0:  # at k = 0 all clients are at the same point, and α is 0/0
        ratios.append((float(result.summed) / float(result.single), float(result.active)))
    alpha = max((ratio for ratio, _ in ratios), default=None)
    alpha_per_client = max((ratio / n for ratio, n in ratios), default=None)
    return DriftResult(drift / max(1, len(models)), alpha, alpha_per_client, models)

  def steps(
    self, state: ProcessState, clients: Sequence[ClientInput]
  ) -> Iterator[tuple[StepResult, list[Weights]]]:
    """Takes the local steps one by one.

    Yields:
      For each step its result, and the models after it of the clients with data.
    """
    cohort = list(clients)
    batches = self._read(state, cohort)
    step_input, carries, counts, positions = self._begin(state, cohort)
    for k in range(int(np.max(counts, initial=0))):
      result = self._step(step_input._replace(k=np.int32(k)), cohort, batches, carries)
      step_input = step_input._replace(shadow=result.shadow, mean_y=result.mean_y)
      carries = result.carries
      yield (
        result,
        [
          tuple(carry[position : position + self._num_tensors])
          for carry, count, position in zip(carries, counts, positions, strict=True)
          if count
        ],
      )
