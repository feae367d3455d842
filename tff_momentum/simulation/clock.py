"""A simulated clock: which clients arrive when, in virtual seconds.

A client works K_i / speed_i virtual seconds. A synchronous server waits for its cohort (`synchronous`). An
asynchronous server takes a step whenever m updates have arrived, however old they are (`asynchronous`).

The clock runs ahead of training: it handles only client numbers, step counts and model versions. Each cohort
depends on the ones before it, so cohorts are generated in order. A resumed run replays the clock from
round 0, which costs microseconds per arrival.
"""

import collections
import heapq
import itertools
from collections.abc import Callable, Iterator
from typing import NamedTuple

import numpy as np

from tff_momentum import validation
from tff_momentum.simulation import seeds
from tff_momentum.simulation.distributions import Distribution
from tff_momentum.simulation.participation import Cohort, DailyAvailability, Participation

STALE_POLICIES = ("drop", "block")


class ClientSpeeds:
  """The speed of each client, in local steps per virtual second; drawn once for the whole run.

  Example:
    >>> from tff_momentum.simulation import distributions
    >>> constant = distributions.parse("client_speed", "2")
    >>> speeds = ClientSpeeds(100, constant, default_steps=lambda client: 10, seed=0)
    >>> speeds.seconds(client=7), speeds.seconds(client=7, steps=3)
    (5.0, 1.5)
  """

  def __init__(
    self, num_clients: int, speed: Distribution, default_steps: Callable[[int], int], seed: int
  ):
    """Draws the speeds.

    Args:
      num_clients: N, the size of the population.
      speed: the distribution of the speeds.
      default_steps: client number -> its local steps in a round that gives it no number of its own.
      seed: the run's seed.
    """
    rng = seeds.generator(seed, seeds.SPEED)
    self._speeds = speed.draw(rng, np.arange(num_clients), 0)
    self._default_steps = default_steps

  def seconds(self, client: int, steps: int | None = None) -> float:
    """Returns how long a client works, in virtual seconds.

    Args:
      client: its number.
      steps: its local steps; None for the default number. A client without data works as long as for
        one step.
    """
    count = self._default_steps(client) if steps is None else steps
    return max(count, 1) / float(self._speeds[client])


def synchronous(
  participation: Participation,
  speeds: ClientSpeeds,
  *,
  clients_per_round: int | None = None,
  deadline: float | None = None,
) -> Participation:
  """Puts a synchronous server on the clock: a round ends when enough clients have reported.

  Args:
    participation: selects the clients, possibly more than are needed (over-selection).
    speeds: how fast clients work.
    clients_per_round: number of reports that end a round; the updates of later clients are not used.
      None waits for all.
    deadline: virtual seconds after which a round ends in any case. None waits without limit.

  Returns:
    The participation of the clients that report in time, with the columns `virtual/seconds` and
    `virtual/idle_seconds`, and `clients/late` if clients can be late.

  Raises:
    ValueError: `deadline` is not positive.

  Example:
    >>> from tff_momentum.simulation import distributions, participation
    >>> speed = distributions.parse("client_speed", "lognormal(1, 1)", above=0)
    >>> speeds = ClientSpeeds(100, speed, lambda client: 10, seed=0)
    >>> on_time = synchronous(participation.uniform(100, 8, seed=0), speeds, deadline=30.0)
    >>> len(on_time(0).clients), on_time(0).unreported, on_time(0).measurements["virtual/seconds"]
    (7, 1, 30.0)
  """
  if deadline is not None:
    validation.number("deadline", deadline, above=0)
  nobody_is_late = deadline is None and clients_per_round is None

  def cohorts() -> Iterator[Cohort]:
    now = 0.0
    for t in itertools.count():
      chosen = participation(t)
      steps = chosen.steps or itertools.repeat(None)
      taken = [speeds.seconds(i, k) for i, k in zip(chosen.clients, steps, strict=False)]
      first = sorted(range(len(taken)), key=taken.__getitem__)[:clients_per_round]
      kept = sorted(k for k in first if deadline is None or taken[k] <= deadline)
      selected = len(taken) + chosen.unreported
      wanted = min(clients_per_round or selected, selected)
      enough = deadline is None or len(kept) == wanted
      lasted = max((taken[k] for k in kept), default=0.0) if enough else deadline or 0.0
      now += lasted
      late = {} if nobody_is_late else {"clients/late": float(len(taken) - len(kept))}
      yield chosen.keep(kept, **late, **_time_columns(now, lasted))

  return _sequential(cohorts)


class ClientJob(NamedTuple):
  """A client at work: the model version it started from, its steps, and whether its update gets lost."""

  version: int
  steps: int | None
  lost: bool


def asynchronous(
  num_clients: int,
  clients_per_step: int,
  speeds: ClientSpeeds,
  *,
  max_staleness: int,
  stale: str = "drop",
  steps: Distribution | None = None,
  think_time: Distribution | None = None,
  days: DailyAvailability | None = None,
  dropout_rate: float = 0.0,
  seed: int = 0,
) -> Participation:
  """Puts an asynchronous server on the clock: cohort t takes the model from version t to version t + 1.

  Every client works all the time: it thinks, downloads the newest version, trains, uploads, and starts
  again.

  Args:
    num_clients: N, the size of the population.
    clients_per_step: m, the number of arrivals that make a server step. A client may be among them twice.
    speeds: how fast clients work.
    max_staleness: the largest number of versions that an update may be behind.
    stale: "drop" discards older updates. "block" makes the server wait with its step while the step
      would make an update that is under way too old; it then uses all updates that have arrived.
    steps: distribution of the local steps K_i of each job; None for the default number.
    think_time: distribution of the virtual seconds before each job; None for 0.
    days: when clients can start a job; None for always.
    dropout_rate: probability that a job's update never arrives.
    seed: the run's seed.

  Returns:
    The participation, with `Cohort.staleness` and columns for virtual time and staleness.

  Raises:
    ValueError: an argument is out of range.

  Example:
    >>> from tff_momentum.simulation import distributions
    >>> speed = distributions.parse("client_speed", "lognormal(1, 1)", above=0)
    >>> speeds = ClientSpeeds(100, speed, lambda client: 10, seed=0)
    >>> arrivals = asynchronous(100, 5, speeds, max_staleness=20)
    >>> arrivals(0).staleness, max(arrivals(50).staleness)
    ([0, 0, 0, 0, 0], 13)
  """
  validation.integer("clients_per_step", clients_per_step, at_least=1)
  validation.integer("max_staleness", max_staleness, at_least=1)
  validation.one_of("stale", stale, STALE_POLICIES)
  validation.number("dropout_rate", dropout_rate, at_least=0, below=1)

  def cohorts() -> Iterator[Cohort]:
    rng = seeds.generator(seed, seeds.CLOCK)
    counter = (
      itertools.count()
    )  # breaks ties: of two events at one time, the older entry comes first
    jobs_of = [0] * num_clients
    # (time, entry, client, job that ends); no job where one begins.
    events: list[tuple[float, int, int, ClientJob | None]] = []
    running: collections.Counter[int] = collections.Counter()  # jobs by version
    arrived: list[tuple[int, ClientJob]] = []
    version = oldest = late = lost = 0
    stepped = 0.0

    def think(client: int, now: float) -> None:
      one = np.array([client])
      if think_time is not None:
        now += float(think_time.draw(rng, one, jobs_of[client])[0])
      if days is not None:
        now += float(days.waiting(one, now)[0])
      heapq.heappush(events, (now, next(counter), client, None))

    for client in range(num_clients):
      think(client, 0.0)
    while True:
      now, _, client, job = heapq.heappop(events)
      if job is None:
        own = steps and int(steps.draw(rng, np.array([client]), jobs_of[client])[0])
        job = ClientJob(version, own, bool(dropout_rate) and rng.random() < dropout_rate)
        running[version] += 1
        heapq.heappush(events, (now + speeds.seconds(client, own), next(counter), client, job))
        continue
      running[job.version] -= 1
      jobs_of[client] += 1
      think(client, now)
      if job.lost:
        lost += 1
      elif version - job.version > max_staleness:
        late += 1
      else:
        arrived.append((client, job))
      while oldest < version and not running[oldest]:
        del running[oldest]
        oldest += 1
      blocked = stale == "block" and running[oldest] and version + 1 - oldest > max_staleness
      if len(arrived) < clients_per_step or blocked:
        continue
      ages = [version - each.version for _, each in arrived]
      measured = {**_time_columns(now, now - stepped), **_staleness_columns(ages, max_staleness)}
      measured |= {"clients/stale": float(late)} if stale == "drop" else {}
      measured |= {"clients/dropped": float(lost)} if dropout_rate else {}
      own_steps = [each.steps or 0 for _, each in arrived] if steps else None
      yield Cohort([i for i, _ in arrived], own_steps, ages, late + lost, measured)
      version, arrived, late, lost, stepped = version + 1, [], 0, 0, now

  return _sequential(cohorts)


def staleness_bins(max_staleness: int) -> list[tuple[int, int]]:
  """Returns the first and last staleness of each bin of the histogram: 0, 1, 2–3, 4–7 and so on.

  Example:
    >>> staleness_bins(10)
    [(0, 0), (1, 1), (2, 3), (4, 7), (8, 10)]
  """
  starts = [0, *(2**k for k in range(max_staleness.bit_length()))]
  return [(low, min(max(2 * low - 1, low), max_staleness)) for low in starts]


def _sequential(cohorts: Callable[[], Iterator[Cohort]]) -> Participation:
  """Turns cohorts that can only be generated in order into a participation; going back starts again."""
  number, current = -1, Cohort([])
  iterator: Iterator[Cohort] = iter(())

  def cohort(round_number: int) -> Cohort:
    nonlocal number, current, iterator
    if round_number < number or number < 0:
      number, iterator = -1, cohorts()
    while number < round_number:
      number, current = number + 1, next(iterator)
    return current

  return cohort


def _time_columns(now: float, waited: float) -> dict[str, float]:
  """The virtual time, and how long the server waited for this step."""
  return {"virtual/seconds": now, "virtual/idle_seconds": waited}


def _staleness_columns(ages: list[int], max_staleness: int) -> dict[str, float]:
  """Mean and largest staleness, and the number of updates in each bin of its histogram."""
  counts = {
    f"staleness/{low}" + f"-{high}" * (high > low): float(sum(low <= age <= high for age in ages))
    for low, high in staleness_bins(max_staleness)
  }
  return {"staleness/mean": sum(ages) / len(ages), "staleness/max": float(max(ages)), **counts}
