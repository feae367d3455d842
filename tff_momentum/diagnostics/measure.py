"""Takes the chosen measures in every so many rounds of a run, without touching the run itself.

Everything is measured at the state that the round began with. Data sets are opened anew with the round's own
seeds, clients' states are read and never written, so the run goes on with the same bits as without.
"""

from collections.abc import Sequence

import numpy as np

from tff_momentum import validation
from tff_momentum.diagnostics import NAMES, updates
from tff_momentum.diagnostics.cosine import CosineDistance
from tff_momentum.diagnostics.dissimilarity import COLUMNS as DISSIMILARITY
from tff_momentum.diagnostics.dissimilarity import Dissimilarity
from tff_momentum.diagnostics.drift import LockStep
from tff_momentum.diagnostics.flops import Flops
from tff_momentum.diagnostics.gradient import FullGradient
from tff_momentum.processes.process import FederatedProcess, ProcessState
from tff_momentum.simulation import seeds
from tff_momentum.simulation.loop import TrainedRound

PREFIX = "diagnostics/"


class Measure:
  """The measures of a run: `loop.rounds` calls it with every `TrainedRound`.

  Attributes:
    columns: all names that a row may get, in order.
  """

  def __init__(
    self,
    process: FederatedProcess,
    clients: Sequence[str],
    names: Sequence[str],
    *,
    period: int = 10,
    seed: int = 0,
    sample: int | None = None,
    cohorts: int = 1,
    gradients: str = "batch",
  ):
    """Compiles what was asked for; raises ValueError where a measure is not defined for the process.

    Args:
      process: the run's.
      clients: the ids of all clients.
      names: of `NAMES`.
      period: measures in every so many rounds.
      seed: of the run.
      sample: how many clients, drawn anew each time, the full gradient is taken over: all where that
        many are asked for, as many as the round has if None.
      cohorts: how many cohorts are drawn beside the round's own for the variance.
      gradients: "batch" or "full", as `LockStep` takes it.
    """
    for name in names:
      validation.one_of("diagnostics", name, tuple(NAMES))
    validation.integer("diagnostics_period", period, at_least=1)
    if sample is not None:
      validation.integer("diagnostics_clients", sample, at_least=1)
    validation.integer("diagnostics_cohorts", cohorts, at_least=1)
    self._process, self._clients, self._names = process, clients, tuple(dict.fromkeys(names))
    self._period, self._seed, self._sample, self._cohorts = period, seed, sample, cohorts
    self._lock_step = self._cosine = self._gradient = self._flops = self._dissimilarity = None
    chosen = set(names)
    if chosen & {"drift", "alpha"}:
      self._lock_step = LockStep(
        process, drift="drift" in chosen, alpha="alpha" in chosen, gradients=gradients
      )
    if "cosine" in chosen:
      self._cosine = CosineDistance(process)
    if "gradient" in chosen:
      self._gradient = FullGradient(process)
    if "flops" in chosen:
      self._flops = Flops(process)
    if "dissimilarity" in chosen:
      self._dissimilarity = Dissimilarity(process, seed=seed)
    self._layers = updates.layer_names(process.model) if "layers" in chosen else []
    own: dict[str, Sequence[str]] = {
      "alpha": ("alpha", "alpha_per_client"),
      "gradient": self._gradient.columns if self._gradient else (),
      "layers": [f"layers/{name}" for name in self._layers],
      "dissimilarity": DISSIMILARITY,
    }
    self.columns = [PREFIX + c for name in self._names for c in own.get(name, (name,))]

  def __call__(self, visit: TrainedRound) -> dict[str, float]:
    """The row's new numbers; none in a round that is not measured, or in which nobody took part."""
    if (visit.round + 1) % self._period or not visit.cohort:
      return {}
    found: dict[str, float] = {}
    cohort = list(visit.inputs(visit.cohort))  # unread, for whoever needs the batches in order
    models = None
    if self._lock_step:
      walked = self._lock_step(visit.before, cohort)
      models = walked.models
      found["drift"] = walked.drift
      if walked.alpha is not None and walked.alpha_per_client is not None:
        found.update(alpha=walked.alpha, alpha_per_client=walked.alpha_per_client)
    if self._cosine and models is not None:
      found["cosine"] = self._cosine.between(models)
    elif self._cosine:
      found["cosine"] = self._cosine(visit.before, cohort)
    if self._gradient:
      ids = self._drawn(self._sample or len(visit.cohort), visit.round, 0)
      found.update(self._gradient(visit.before, visit.inputs(ids)))
    if self._flops:
      found["flops"] = self._flops(visit.before, cohort)
    if self._dissimilarity:
      found.update(self._dissimilarity(visit.before, cohort))
    found.update(self._of_updates(visit))
    return {PREFIX + n: v for n, v in found.items() if PREFIX + n in self.columns}

  def _of_updates(self, visit: TrainedRound) -> dict[str, float]:
    def update(after: ProcessState) -> list[np.ndarray]:
      return updates.moved(self._process.weights(visit.before), self._process.weights(after))

    found: dict[str, float] = {}
    if self._layers:
      parts = zip(self._layers, update(visit.after), strict=True)
      found.update((f"layers/{name}", float(np.linalg.norm(part))) for name, part in parts)
    if "variance" in self._names:
      drawn = [
        self._drawn(len(visit.cohort), visit.round, number + 1) for number in range(self._cohorts)
      ]
      others = (self._process.next(visit.before, list(visit.inputs(ids))).state for ids in drawn)
      found["variance"] = updates.variance([update(state) for state in (visit.after, *others)])
    return found

  def _drawn(self, count: int, round_number: int, number: int) -> list[str]:
    """So many clients, drawn for this round and purpose; all of them, in order, where that many are asked."""
    total = len(self._clients)
    if count >= total:
      return [self._clients[i] for i in range(total)]
    rng = seeds.generator(self._seed, seeds.DIAGNOSTICS, round_number, number)
    return [self._clients[i] for i in rng.choice(total, count, replace=False)]
