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
  """How long clients work: each has a speed, in steps a second, for the whole run."""

  def __init__(
    self, num_clients: int, speed: Distribution, usual_steps: Callable[[int], int], seed: int
  ):
    """Takes the distribution of the speeds, and the steps of a client that is not told another number."""
    rng = seeds.generator(seed, seeds.SPEED)
    self._speeds = speed.draw(rng, np.arange(num_clients), 0)
    self._usual_steps = usual_steps

  def seconds(self, client: int, steps: int | None) -> float:
    """How long the client takes for so many steps; to find out that it has no data, as long as for one."""
    count = self._usual_steps(client) if steps is None else steps
    return max(count, 1) / float(self._speeds[client])


def in_order(cohorts: Callable[[], Iterator[Cohort]]) -> Participation:
  """A participation from cohorts that can only be had one after the other."""
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


def synchronous(
  participation: Participation,
  pace: ClientSpeeds,
  *,
  clients_per_round: int | None = None,
  deadline: float | None = None,
) -> Participation:
  """A synchronous round on the clock: it ends when enough clients have reported, or at the deadline.

  Args:
    participation: who is selected; may be more than are needed (over-selection).
    pace: how long they work.
    clients_per_round: how many reports are enough, all if None; who comes after them is late.
    deadline: seconds after which nobody is waited for.
  """
  if deadline is not None:
    validation.number("deadline", deadline, above=0)
  all_count = deadline is None and clients_per_round is None

  def cohorts() -> Iterator[Cohort]:
    now = 0.0
    for t in itertools.count():
      chosen = participation(t)
      steps = chosen.steps or itertools.repeat(None)
      taken = [pace.seconds(i, k) for i, k in zip(chosen.clients, steps, strict=False)]
      first = sorted(range(len(taken)), key=taken.__getitem__)[:clients_per_round]
      kept = sorted(k for k in first if deadline is None or taken[k] <= deadline)
      selected = len(taken) + chosen.unreported
      wanted = min(clients_per_round or selected, selected)
      enough = deadline is None or len(kept) == wanted
      lasted = max((taken[k] for k in kept), default=0.0) if enough else deadline or 0.0
      now += lasted
      late = {} if all_count else {"clients/late": float(len(taken) - len(kept))}
      yield chosen.only(kept, **late, **_times(now, lasted))

  return in_order(cohorts)


class ClientJob(NamedTuple):
  """A client at work: the version it started from, its steps, and whether it will be heard of again."""

  version: int
  steps: int | None
  lost: bool


def asynchronous(
  num_clients: int,
  clients_per_step: int,
  pace: ClientSpeeds,
  *,
  max_staleness: int,
  stale: str = "drop",
  steps: Distribution | None = None,
  think_time: Distribution | None = None,
  days: DailyAvailability | None = None,
  dropout_rate: float = 0.0,
  seed: int = 0,
) -> Participation:
  """An asynchronous server: cohort t is what it takes its step from version t to t + 1 with.

  Args:
    num_clients: all of them take part whenever they please.
    clients_per_step: m, the arrivals that make a step; a client may be among them twice.
    pace: how long clients work.
    max_staleness: the most versions that an update may be old.
    stale: what becomes of older ones: "drop", or "block": the server does not step while that would
      make anybody's update too old, and then takes all that has arrived.
    steps: the distribution of K_i, drawn for each job; the usual number if None.
    think_time: the distribution of the seconds before each job; none if None.
    days: when clients can start; always if None.
    dropout_rate: the chance of each job that its update never arrives.
    seed: of all that is drawn.
  """
  validation.integer("clients_per_step", clients_per_step, at_least=1)
  validation.integer("max_staleness", max_staleness, at_least=1)
  validation.one_of("stale", stale, STALE_POLICIES)
  validation.number("dropout_rate", dropout_rate, at_least=0, below=1)

  def cohorts() -> Iterator[Cohort]:
    rng = seeds.generator(seed, seeds.CLOCK)
    counter = itertools.count()  # who was entered first is first among equal times
    jobs_of = [0] * num_clients
    events: list[
      tuple[float, int, int, ClientJob | None]
    ] = []  # time, entry, client; None to start a job
    running: collections.Counter[int] = collections.Counter()  # by version
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
        heapq.heappush(events, (now + pace.seconds(client, own), next(counter), client, job))
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
      awaited = stale == "block" and running[oldest] and version + 1 - oldest > max_staleness
      if len(arrived) < clients_per_step or awaited:
        continue
      ages = [version - each.version for _, each in arrived]
      measured = {**_times(now, now - stepped), **_ages(ages, max_staleness)}
      measured |= {"clients/stale": float(late)} if stale == "drop" else {}
      measured |= {"clients/dropped": float(lost)} if dropout_rate else {}
      own_steps = [each.steps or 0 for _, each in arrived] if steps else None
      yield Cohort([i for i, _ in arrived], own_steps, ages, late + lost, measured)
      version, arrived, late, lost, stepped = version + 1, [], 0, 0, now

  return in_order(cohorts)


def age_bins(max_staleness: int) -> list[tuple[int, int]]:
  """The first and last staleness of each bar of the histogram: 0, 1, 2–3, 4–7 and so on."""
  starts = [0, *(2**k for k in range(max_staleness.bit_length()))]
  return [(low, min(max(2 * low - 1, low), max_staleness)) for low in starts]


def _times(now: float, waited: float) -> dict[str, float]:
  """The time, and how long the server had nothing to do before this step."""
  return {"virtual/seconds": now, "virtual/idle_seconds": waited}


def _ages(ages: list[int], max_staleness: int) -> dict[str, float]:
  """Mean and largest staleness, and how many updates fall into each bar of its histogram."""
  counts = {
    f"staleness/{low}" + f"-{high}" * (high > low): float(sum(low <= age <= high for age in ages))
    for low, high in age_bins(max_staleness)
  }
  return {"staleness/mean": sum(ages) / len(ages), "staleness/max": float(max(ages)), **counts}
