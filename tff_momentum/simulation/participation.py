"""Who takes part in which round: a participation maps the round to its cohort.

The patterns choose clients; wrappers around them say who drops out and how many steps each one takes. All
are functions of (seed, round) and of nothing else, so that a resumed run needs no state of theirs.
"""

import dataclasses
import math
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from tff_momentum import validation
from tff_momentum.simulation import seeds
from tff_momentum.simulation.distributions import Distribution


@dataclasses.dataclass(frozen=True)
class Cohort:
  """The clients of one round.

  Attributes:
    clients: numbers of the clients whose updates arrive; nobody makes the round a skipped one. A
      client may be there twice if the algorithm is asynchronous.
    steps: K_i of each; None for the usual number.
    staleness: how many rounds ago each one started; None for 0.
    unreported: how many more have downloaded the model, and are not heard of.
    measurements: what else the round's row of metrics should say; the same names in every round.
  """

  clients: list[int]
  steps: list[int] | None = None
  staleness: list[int] | None = None
  unreported: int = 0
  measurements: Mapping[str, float] = dataclasses.field(default_factory=dict)

  def only(self, kept: Sequence[int], **measurements: float) -> "Cohort":
    """The cohort with those at these places alone, and these measurements added."""
    steps, staleness = (
      values and [values[k] for k in kept] for values in (self.steps, self.staleness)
    )
    unreported = self.unreported + len(self.clients) - len(kept)
    measured = {**self.measurements, **measurements, "rounds/skipped": float(not kept)}
    return Cohort([self.clients[k] for k in kept], steps, staleness, unreported, measured)


Participation = Callable[[int], Cohort]  # called with the rounds in order, from any round on


def uniform(num_clients: int, clients_per_round: int, seed: int) -> Participation:
  """Each cohort is drawn uniformly without replacement, independently of all others."""
  _check_size(num_clients, clients_per_round)

  def cohort(round_number: int) -> Cohort:
    rng = seeds.generator(seed, seeds.COHORT, round_number)
    return Cohort(rng.choice(num_clients, clients_per_round, replace=False).tolist())

  return cohort


def cyclic(num_clients: int, clients_per_round: int, seed: int) -> Participation:
  """The clients in turn, in a fixed random order: each exactly once in a cycle (GHBM, Assumption 4.4).

  The last cohort of a cycle is smaller where the numbers do not divide.
  """
  _check_size(num_clients, clients_per_round)
  order = seeds.generator(seed, seeds.COHORT).permutation(num_clients).tolist()
  period = math.ceil(num_clients / clients_per_round)

  def cohort(round_number: int) -> Cohort:
    start = round_number % period * clients_per_round
    return Cohort(order[start : start + clients_per_round])

  return cohort


def same(num_clients: int, clients_per_round: int, seed: int) -> Participation:
  """One cohort, drawn once, takes part in every round."""
  chosen = uniform(num_clients, clients_per_round, seed)(0)
  return lambda round_number: chosen


def proportional(sizes: Sequence[int], clients_per_round: int, seed: int) -> Participation:
  """Drawn without replacement, one after the other, each with a chance in proportion to its examples."""
  _check_size(np.count_nonzero(sizes), clients_per_round, "clients with data")
  chances = np.asarray(sizes, float) / np.sum(sizes)

  def cohort(round_number: int) -> Cohort:
    rng = seeds.generator(seed, seeds.COHORT, round_number)
    drawn = rng.choice(len(chances), clients_per_round, replace=False, p=chances)
    return Cohort(drawn.tolist())

  return cohort


def available(
  num_clients: int, clients_per_round: int, seed: int, *, days: "DailyAvailability"
) -> Participation:
  """Drawn uniformly from those who are there at the time; all of them where they are too few.

  Time is the number of the round.
  """
  _check_size(num_clients, clients_per_round)

  def cohort(round_number: int) -> Cohort:
    there = np.flatnonzero(days.waiting(np.arange(num_clients), float(round_number)) == 0)
    rng = seeds.generator(seed, seeds.COHORT, round_number)
    drawn = rng.choice(there, min(clients_per_round, len(there)), replace=False)
    measured = {"clients/available": float(len(there)), "rounds/skipped": float(not len(there))}
    return Cohort(drawn.tolist(), measurements=measured)

  return cohort


class DailyAvailability:
  """When clients can be reached: each one for its share of every day, from an hour of its own on."""

  def __init__(self, num_clients: int, length: float, share: Distribution, seed: int):
    """Takes the length of a day and the distribution of the clients' shares of it, in (0, 1]."""
    validation.number("day", length, above=0)
    rng = seeds.generator(seed, seeds.AVAILABILITY)
    self._length = length
    self._phase = rng.random(num_clients)
    self._share = np.minimum(share.draw(rng, np.arange(num_clients), 0), 1.0)

  def waiting(self, clients: np.ndarray, time: float) -> np.ndarray:
    """How long these clients must wait from this time on until they can be reached; 0 if they can now."""
    hour = (time / self._length + self._phase[clients]) % 1.0
    return np.where(hour < self._share[clients], 0.0, (1.0 - hour) * self._length)


def with_steps(
  participation: Participation, distribution: Distribution, seed: int
) -> Participation:
  """Gives each client of a cohort a number of steps of its own, drawn for the client and the round."""

  def cohort(round_number: int) -> Cohort:
    chosen = participation(round_number)
    rng = seeds.generator(seed, seeds.STEPS, round_number)
    steps = distribution.draw(rng, np.array(chosen.clients, int), round_number).astype(int).tolist()
    return dataclasses.replace(chosen, steps=steps)

  return cohort


def with_dropouts(participation: Participation, rate: float, seed: int) -> Participation:
  """Each client of a cohort, with this chance, downloads the model and is never heard of again."""
  validation.number("dropout_rate", rate, at_least=0, below=1)

  def cohort(round_number: int) -> Cohort:
    chosen = participation(round_number)
    lost = seeds.generator(seed, seeds.DROPOUT, round_number).random(len(chosen.clients)) < rate
    return chosen.only(
      np.flatnonzero(~lost).tolist(), **{"clients/dropped": float(np.count_nonzero(lost))}
    )

  return cohort


def _check_size(num_clients: int, clients_per_round: int, what: str = "clients") -> None:
  validation.integer("clients_per_round", clients_per_round, at_least=1)
  if clients_per_round > num_clients:
    raise ValueError(
      f"clients_per_round must be at most the number of {what}, {num_clients}; found {clients_per_round}."
    )
