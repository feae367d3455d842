"""Client participation: which clients take part in which round.

A participation is a function from the round number to its `Cohort`. The patterns (`uniform`, `cyclic`,
`same`, `proportional`, `available`) select clients. The wrappers `with_steps` and `with_dropouts` add uneven
work and dropout. All of them are pure functions of (seed, round), so a checkpoint stores nothing about them.
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
    clients: numbers of the clients whose updates arrive. An empty cohort skips the round. With an
      asynchronous algorithm, a client may appear twice.
    steps: number of local steps K_i of each client; None for the default number.
    staleness: how many rounds ago each client started; None for 0.
    unreported: number of further clients that download the model and whose updates are not used.
    measurements: further columns of the round's row of metrics; the same names in every round.

  Example:
    >>> Cohort([4, 7, 1], steps=[5, 2, 9]).keep([0, 2])  # doctest: +ELLIPSIS
    Cohort(clients=[4, 1], steps=[5, 9], staleness=None, unreported=1, measurements={...})
  """

  clients: list[int]
  steps: list[int] | None = None
  staleness: list[int] | None = None
  unreported: int = 0
  measurements: Mapping[str, float] = dataclasses.field(default_factory=dict)

  def keep(self, positions: Sequence[int], **measurements: float) -> "Cohort":
    """Returns the cohort reduced to some of its clients; the others count as unreported.

    Args:
      positions: indices into `clients` of those to keep.
      measurements: columns to add.
    """
    steps, staleness = (
      values and [values[k] for k in positions] for values in (self.steps, self.staleness)
    )
    unreported = self.unreported + len(self.clients) - len(positions)
    measured = {**self.measurements, **measurements, "rounds/skipped": float(not positions)}
    return Cohort([self.clients[k] for k in positions], steps, staleness, unreported, measured)


Participation = Callable[[int], Cohort]  # called with consecutive round numbers, from any round on


def uniform(num_clients: int, clients_per_round: int, seed: int) -> Participation:
  """Draws each cohort uniformly without replacement, independently of all other rounds.

  Args:
    num_clients: N, the size of the population.
    clients_per_round: S, the size of a cohort.
    seed: the run's seed.

  Returns:
    The participation, a function from the round number to its cohort.

  Raises:
    ValueError: `clients_per_round` is not between 1 and `num_clients`.

  Example:
    >>> participation = uniform(num_clients=100, clients_per_round=3, seed=0)
    >>> participation(0).clients
    [63, 51, 83]
  """
  _check_size(num_clients, clients_per_round)

  def cohort(round_number: int) -> Cohort:
    rng = seeds.generator(seed, seeds.COHORT, round_number)
    return Cohort(rng.choice(num_clients, clients_per_round, replace=False).tolist())

  return cohort


def cyclic(num_clients: int, clients_per_round: int, seed: int) -> Participation:
  """Takes the clients in turn, in a fixed random order (GHBM, Assumption 4.4).

  Each client takes part exactly once per cycle. The last cohort of a cycle is smaller if S does not divide N.

  Args:
    num_clients: N, the size of the population.
    clients_per_round: S, the size of a cohort.
    seed: the run's seed.

  Returns:
    The participation, a function from the round number to its cohort.

  Raises:
    ValueError: `clients_per_round` is not between 1 and `num_clients`.

  Example:
    >>> participation = cyclic(num_clients=5, clients_per_round=2, seed=0)
    >>> [len(participation(t).clients) for t in range(4)]
    [2, 2, 1, 2]
    >>> participation(0) == participation(3)
    True
  """
  _check_size(num_clients, clients_per_round)
  order = seeds.generator(seed, seeds.COHORT).permutation(num_clients).tolist()
  period = math.ceil(num_clients / clients_per_round)

  def cohort(round_number: int) -> Cohort:
    start = round_number % period * clients_per_round
    return Cohort(order[start : start + clients_per_round])

  return cohort


def same(num_clients: int, clients_per_round: int, seed: int) -> Participation:
  """Draws one cohort, uniformly without replacement, and uses it in every round.

  Args:
    num_clients: N, the size of the population.
    clients_per_round: S, the size of the cohort.
    seed: the run's seed.

  Returns:
    The participation, a function from the round number to its cohort.

  Raises:
    ValueError: `clients_per_round` is not between 1 and `num_clients`.

  Example:
    >>> participation = same(num_clients=100, clients_per_round=3, seed=0)
    >>> participation(0) == participation(9)
    True
  """
  chosen = uniform(num_clients, clients_per_round, seed)(0)
  return lambda round_number: chosen


def proportional(sizes: Sequence[int], clients_per_round: int, seed: int) -> Participation:
  """Draws clients one after another, without replacement, with probability proportional to their data.

  Args:
    sizes: number of examples of each client.
    clients_per_round: S, the size of a cohort.
    seed: the run's seed.

  Returns:
    The participation, a function from the round number to its cohort.

  Raises:
    ValueError: `clients_per_round` is not between 1 and the number of clients with data.

  Example:
    >>> participation = proportional([0, 10, 0, 500], clients_per_round=2, seed=0)
    >>> sorted(participation(0).clients)
    [1, 3]
  """
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
  """Draws each cohort uniformly from the clients that are available; all of them if they are fewer than S.

  The time is the round number: a day of length 24 lasts 24 rounds.

  Args:
    num_clients: N, the size of the population.
    clients_per_round: S, the size of a cohort.
    seed: the run's seed.
    days: when each client is available.

  Returns:
    The participation, a function from the round number to its cohort.

  Raises:
    ValueError: `clients_per_round` is not between 1 and `num_clients`.

  Example:
    >>> from tff_momentum.simulation import distributions
    >>> share = distributions.parse("availability", "0.25")
    >>> days = DailyAvailability(100, length=24.0, share=share, seed=0)
    >>> participation = available(100, 10, seed=0, days=days)
    >>> participation(0).measurements["clients/available"]
    24.0
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
  """Makes each client available for a share of every day, starting at a time of its own.

  Both are drawn once for the whole run.
  """

  def __init__(self, num_clients: int, length: float, share: Distribution, seed: int):
    """Draws every client's share of the day and the time at which it starts.

    Args:
      num_clients: N, the size of the population.
      length: the length of a day, in rounds or virtual seconds.
      share: the distribution of the clients' shares of the day; values above 1 count as 1.
      seed: the run's seed.

    Raises:
      ValueError: `length` is not positive.
    """
    validation.number("day", length, above=0)
    rng = seeds.generator(seed, seeds.AVAILABILITY)
    self._length = length
    self._phase = rng.random(num_clients)
    self._share = np.minimum(share.draw(rng, np.arange(num_clients), 0), 1.0)

  def waiting(self, clients: np.ndarray, time: float) -> np.ndarray:
    """Returns how long each client is unavailable from `time` on; 0 if it is available.

    Args:
      clients: client numbers.
      time: in the unit of the day's length.
    """
    hour = (time / self._length + self._phase[clients]) % 1.0
    return np.where(hour < self._share[clients], 0.0, (1.0 - hour) * self._length)


def with_steps(
  participation: Participation, distribution: Distribution, seed: int
) -> Participation:
  """Gives each client of a cohort its own number of local steps, drawn independently in every round.

  The process must be built with `LocalWork(uneven=True)`.

  Args:
    participation: selects the clients.
    distribution: of the numbers of steps; see `distributions.parse_integers`.
    seed: the run's seed.

  Returns:
    The participation with `Cohort.steps` set.

  Example:
    >>> from tff_momentum.simulation import distributions
    >>> steps = distributions.parse_integers("client_steps", "uniform(1, 9)")
    >>> with_steps(uniform(100, 3, seed=0), steps, seed=0)(0).steps
    [5, 8, 5]
  """

  def cohort(round_number: int) -> Cohort:
    chosen = participation(round_number)
    rng = seeds.generator(seed, seeds.STEPS, round_number)
    steps = distribution.draw(rng, np.array(chosen.clients, int), round_number).astype(int).tolist()
    return dataclasses.replace(chosen, steps=steps)

  return cohort


def with_dropouts(participation: Participation, rate: float, seed: int) -> Participation:
  """Makes each client of a cohort drop out with probability `rate`, after it has downloaded the model.

  Args:
    participation: selects the clients.
    rate: the dropout probability, in [0, 1).
    seed: the run's seed.

  Returns:
    The participation without the clients that dropped out; the column `clients/dropped` counts them.

  Raises:
    ValueError: `rate` is not in [0, 1).

  Example:
    >>> cohort = with_dropouts(uniform(100, 10, seed=0), 0.3, seed=0)(0)
    >>> len(cohort.clients), cohort.unreported
    (7, 3)
  """
  validation.number("dropout_rate", rate, at_least=0, below=1)

  def cohort(round_number: int) -> Cohort:
    chosen = participation(round_number)
    lost = seeds.generator(seed, seeds.DROPOUT, round_number).random(len(chosen.clients)) < rate
    return chosen.keep(
      np.flatnonzero(~lost).tolist(), **{"clients/dropped": float(np.count_nonzero(lost))}
    )

  return cohort


def _check_size(num_clients: int, clients_per_round: int, what: str = "clients") -> None:
  validation.integer("clients_per_round", clients_per_round, at_least=1)
  if clients_per_round > num_clients:
    raise ValueError(
      f"clients_per_round must be at most the number of {what}, {num_clients}; found {clients_per_round}."
    )
