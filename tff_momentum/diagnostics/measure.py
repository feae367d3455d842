"""Takes the chosen measures at regular rounds of a run, without changing the run.

Everything is measured at the state before the round. Data sets are opened again with the round's own seeds,
and clients' states are only read, so a measured run is bit-identical to one without measures.
"""

from collections.abc import Sequence

import numpy as np

from tff_momentum import validation
from tff_momentum.diagnostics import NAMES, layer_updates
from tff_momentum.diagnostics.cosine import CosineDistance
from tff_momentum.diagnostics.dissimilarity import COLUMNS as DISSIMILARITY_COLUMNS
from tff_momentum.diagnostics.dissimilarity import Dissimilarity
from tff_momentum.diagnostics.drift import ClientDrift
from tff_momentum.diagnostics.flops import Flops
from tff_momentum.diagnostics.gradient import FullGradient
from tff_momentum.diagnostics.update_variance import update_variance
from tff_momentum.processes.process import ClientInput, FederatedProcess, ProcessState
from tff_momentum.simulation import seeds
from tff_momentum.simulation.loop import TrainedRound

PREFIX = "diagnostics/"


class Measure:
  """The measures of a run; `loop.rounds` calls it with every `TrainedRound`.

  Attributes:
    columns: the names of all values that a row may get, in order.
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
    """Compiles the chosen measures.

    Args:
      process: the run's process.
      clients: the ids of all clients.
      names: the measures, keys of `NAMES`.
      period: the number of rounds between measurements.
      seed: the run's seed.
      sample: the number of clients over which to take the full gradient, drawn again each time; all clients
        if there are not more, and the size of the round's cohort if None.
      cohorts: the number of additional cohorts to draw for the variance.
      gradients: "batch" or "full", see `ClientDrift`.

    Raises:
      ValueError: if a measure is unknown or not defined for the process.
    """
    for name in names:
      validation.one_of("diagnostics", name, tuple(NAMES))
    validation.integer("diagnostics_period", period, at_least=1)
    if sample is not None:
      validation.integer("diagnostics_clients", sample, at_least=1)
    validation.integer("diagnostics_cohorts", cohorts, at_least=1)
    self._process, self._clients, self._names = process, clients, tuple(dict.fromkeys(names))
    self._period, self._seed, self._sample, self._cohorts = period, seed, sample, cohorts
    self._drift = self._cosine = self._gradient = self._flops = self._dissimilarity = None
    chosen = set(names)
    if chosen & {"drift", "alpha"}:
      self._drift = ClientDrift(
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
    self._layers = layer_updates.layer_names(process.model) if "layers" in chosen else []
    columns: dict[str, Sequence[str]] = {
      "alpha": ("alpha", "alpha_per_client"),
      "gradient": self._gradient.columns if self._gradient else (),
      "layers": [f"layers/{name}" for name in self._layers],
      "dissimilarity": DISSIMILARITY_COLUMNS,
    }
    self.columns = [PREFIX + c for name in self._names for c in columns.get(name, (name,))]

  def __call__(self, trained: TrainedRound) -> dict[str, float]:
    """Measures a round.

    Returns:
      The values by column; empty if the round is not to be measured, or if no client took part.
    """
    if (trained.round + 1) % self._period or not trained.cohort:
      return {}
    cohort = list(trained.inputs(trained.cohort))
    found = self._local_steps(trained, cohort)
    if self._gradient:
      ids = self._draw(self._sample or len(trained.cohort), trained.round, 0)
      found.update(self._gradient(trained.before, trained.inputs(ids)))
    if self._flops:
      found["flops"] = self._flops(trained.before, cohort)
    if self._dissimilarity:
      found.update(self._dissimilarity(trained.before, cohort))
    if self._layers:
      update = self._update(trained, trained.after)
      norms = layer_updates.update_norms(self._layers, update)
      found.update((f"layers/{name}", norm) for name, norm in norms.items())
    if "variance" in self._names:
      found["variance"] = self._variance(trained)
    return {PREFIX + n: v for n, v in found.items() if PREFIX + n in self.columns}

  def _local_steps(self, trained: TrainedRound, cohort: list[ClientInput]) -> dict[str, float]:
    """Drift, α and the cosine distance; the last reuses the models of the first two if they are measured."""
    found: dict[str, float] = {}
    models = None
    if self._drift:
      result = self._drift(trained.before, cohort)
      models = result.models
      found["drift"] = result.drift
      if result.alpha is not None and result.alpha_per_client is not None:
        found.update(alpha=result.alpha, alpha_per_client=result.alpha_per_client)
    if self._cosine:
      found["cosine"] = (
        self._cosine(trained.before, cohort) if models is None else self._cosine.between(models)
      )
    return found

  def _variance(self, trained: TrainedRound) -> float:
    drawn = [
      self._draw(len(trained.cohort), trained.round, number + 1) for number in range(self._cohorts)
    ]
    others = (self._process.next(trained.before, list(trained.inputs(ids))).state for ids in drawn)
    return update_variance([self._update(trained, state) for state in (trained.after, *others)])

  def _update(self, trained: TrainedRound, after: ProcessState) -> list[np.ndarray]:
    return layer_updates.update(self._process.weights(trained.before), self._process.weights(after))

  def _draw(self, count: int, round_number: int, number: int) -> list[str]:
    """Draws `count` clients for this round and purpose; all of them, in order, if there are not more."""
    total = len(self._clients)
    if count >= total:
      return [self._clients[i] for i in range(total)]
    rng = seeds.generator(self._seed, seeds.DIAGNOSTICS, round_number, number)
    return [self._clients[i] for i in rng.choice(total, count, replace=False)]
