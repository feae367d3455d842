"""The simulated clock: which clients arrive when, how stale their updates are, and its running time."""

import itertools
import time

import numpy as np
import pytest

from tff_momentum.simulation import clock, distributions, participation

N = 30


def client_speeds(speed="lognormal(1, 0.7)", clients=N, default_steps=5, seed=1):
  distribution = distributions.parse("client_speed", speed, above=0)
  return clock.ClientSpeeds(clients, distribution, lambda i: default_steps, seed)


def first(pattern, count):
  return [pattern(t) for t in range(count)]


def simple_server(clients, m, speeds, *, max_staleness, stale):
  """The same server with sorted lists instead of a heap and counters.

  Every client starts at time 0 and starts again as soon as it is done, with the default number of steps.
  """
  # (end, entry, client, version)
  running = [(speeds.seconds(i), i, i, 0) for i in range(clients)]
  # The clock numbers the end of a job when the job starts, after all jobs that start at the same time.
  entry, version, arrived, dropped = itertools.count(clients), 0, [], 0
  while True:
    running.sort()
    now, _, client, started = running.pop(0)
    restart = (now + speeds.seconds(client), next(entry), client)
    if version - started > max_staleness:
      dropped += 1
    else:
      arrived.append((client, started))
    awaited = stale == "block" and any(version + 1 - job[3] > max_staleness for job in running)
    if len(arrived) >= m and not awaited:
      yield now, [i for i, _ in arrived], [version - v for _, v in arrived], dropped
      version, arrived, dropped = version + 1, [], 0
    running.append((*restart, version))


@pytest.mark.parametrize("stale", clock.STALE_POLICIES)
@pytest.mark.parametrize("max_staleness", [3, 6, 40])
def test_agrees_with_a_simple_simulation(stale, max_staleness):
  rules = dict(max_staleness=max_staleness, stale=stale)
  cohorts = first(clock.asynchronous(N, 4, client_speeds(), **rules), 200)
  for cohort, expected in zip(cohorts, simple_server(N, 4, client_speeds(), **rules), strict=False):
    now, clients, ages, dropped = expected
    assert (cohort.clients, cohort.staleness) == (clients, ages)
    assert cohort.measurements["virtual/seconds"] == pytest.approx(now)
    assert cohort.measurements.get("clients/stale", 0) == dropped
  assert max(max(c.staleness) for c in cohorts) <= max_staleness
  sizes = {len(c.clients) for c in cohorts}
  assert sizes == {4} or stale == "block"


def test_the_server_drops_or_waits_for_stale_updates():
  distribution = "lognormal(1, 1.5)"
  drop = first(clock.asynchronous(N, 4, client_speeds(distribution), max_staleness=5), 100)
  block = first(
    clock.asynchronous(N, 4, client_speeds(distribution), max_staleness=5, stale="block"), 100
  )
  assert sum(c.measurements["clients/stale"] for c in drop) > 10
  assert sum(c.unreported for c in drop) == sum(c.measurements["clients/stale"] for c in drop)
  assert "clients/stale" not in block[0].measurements
  assert max(len(c.clients) for c in block) > 4
  end = "virtual/seconds"
  assert (
    block[-1].measurements[end] > 2 * drop[-1].measurements[end]
  )  # "block" waits for the slowest
  # With "drop" the slowest clients never contribute; with "block" they do.
  assert len({i for c in drop for i in c.clients}) < N == len({i for c in block for i in c.clients})


def test_measurements_add_up():
  cohorts = first(
    clock.asynchronous(
      N,
      4,
      client_speeds(),
      max_staleness=20,
      steps=distributions.parse_integers("steps", "uniform(1, 10)"),
      think_time=distributions.parse("think_time", "lognormal(2, 1)", at_least=0),
      dropout_rate=0.3,
      seed=2,
    ),
    400,
  )
  assert all(c.measurements.keys() == cohorts[0].measurements.keys() for c in cohorts)
  time_so_far = np.cumsum([c.measurements["virtual/idle_seconds"] for c in cohorts])
  np.testing.assert_allclose(time_so_far, [c.measurements["virtual/seconds"] for c in cohorts])
  bars = [f"staleness/{b}" for b in ("0", "1", "2-3", "4-7", "8-15", "16-20")]
  ages = [age for c in cohorts for age in c.staleness]
  assert sum(c.measurements[bar] for c in cohorts for bar in bars) == len(ages) == 1600
  assert sum(c.measurements["staleness/4-7"] for c in cohorts) == sum(4 <= a <= 7 for a in ages)
  for c in cohorts:
    assert c.measurements["staleness/mean"] == np.mean(c.staleness)
    assert c.measurements["staleness/max"] == max(c.staleness)
  assert {k for c in cohorts for k in c.steps} == set(range(1, 11))
  lost = sum(c.measurements["clients/dropped"] for c in cohorts)
  assert 0.26 < lost / (lost + len(ages)) < 0.34


def test_a_client_may_arrive_twice_in_one_cohort():
  cohorts = first(
    clock.asynchronous(5, 4, client_speeds("lognormal(1, 2)", 5), max_staleness=9), 50
  )
  assert any(len(set(c.clients)) < 4 for c in cohorts)


def test_fast_clients_arrive_more_often_and_slow_ones_are_staler():
  speeds = client_speeds("lognormal(1, 1)")
  cohorts = first(clock.asynchronous(N, 4, speeds, max_staleness=200), 800)
  counts = np.bincount([i for c in cohorts for i in c.clients], minlength=N)
  taken = [speeds.seconds(i) for i in range(N)]
  assert np.corrcoef(counts, 1 / np.array(taken))[0, 1] > 0.99
  oldest = [max((a for c in cohorts for i, a in zip(c.clients, c.staleness, strict=True) if i == k),
                default=0) for k in range(N)]  # fmt: skip
  assert np.corrcoef(oldest, taken)[0, 1] > 0.9


def test_unavailable_clients_do_not_start():
  days = participation.DailyAvailability(N, 100.0, distributions.parse("availability", "0.25"), 1)
  cohorts = first(
    clock.asynchronous(N, 3, client_speeds("1", default_steps=1), max_staleness=9, days=days), 300
  )
  for cohort in cohorts:  # the last to arrive started a second before
    started = cohort.measurements["virtual/seconds"] - 1.0
    assert not days.waiting(np.array(cohort.clients[-1:]), started + 1e-6).any()


def test_cohorts_can_be_asked_for_again_and_from_any_round_on():
  def make():
    return clock.asynchronous(N, 4, client_speeds(), max_staleness=20, dropout_rate=0.1, seed=4)

  one, other = make(), make()
  whole = first(one, 30)
  assert other(17) == whole[17]
  assert other(3) == whole[3]
  assert [one(t) for t in (29, 29, 0, 1)] == [whole[29], whole[29], whole[0], whole[1]]
  other_seed = clock.asynchronous(
    N, 4, client_speeds(seed=2), max_staleness=20, dropout_rate=0.1, seed=5
  )
  assert first(other_seed, 30) != whole


# Synchronous rounds.


def synchronous(selected, wanted, **rules):
  pattern = participation.uniform(N, selected, 1)
  return pattern, clock.synchronous(pattern, client_speeds(), clients_per_round=wanted, **rules)


def test_a_synchronous_round_lasts_as_long_as_its_slowest_client():
  plain, on_time = synchronous(6, None)
  now = 0.0
  for t in range(20):
    taken = [client_speeds().seconds(i) for i in plain(t).clients]
    now += max(taken)
    assert on_time(t).clients == plain(t).clients
    assert on_time(t).measurements["virtual/seconds"] == pytest.approx(now)
    assert on_time(t).measurements["virtual/idle_seconds"] == max(taken)
    assert "clients/late" not in on_time(t).measurements


def test_stragglers_are_cut_at_the_deadline():
  plain, on_time = synchronous(6, 6, deadline=5.0)
  cohorts = first(on_time, 60)
  for t, cohort in enumerate(cohorts):
    quick = [i for i in plain(t).clients if client_speeds().seconds(i) <= 5.0]
    assert cohort.clients == quick
    assert cohort.unreported == cohort.measurements["clients/late"] == 6 - len(quick)
    assert cohort.measurements["virtual/idle_seconds"] <= 5.0
    assert (cohort.measurements["virtual/idle_seconds"] == 5.0) == (len(quick) < 6)
  nobody = clock.synchronous(plain, client_speeds(), clients_per_round=6, deadline=1e-3)(0)
  assert nobody.clients == []
  assert nobody.measurements["rounds/skipped"] == 1


def test_over_selection_uses_the_first_clients_to_report():
  plain, on_time = synchronous(9, 6)
  for t in range(20):
    cohort = on_time(t)
    taken = sorted(client_speeds().seconds(i) for i in plain(t).clients)
    assert sorted(client_speeds().seconds(i) for i in cohort.clients) == taken[:6]
    assert cohort.measurements["clients/late"] == 3
    assert cohort.measurements["virtual/idle_seconds"] == taken[5]


def test_the_server_waits_for_dropped_clients_until_the_deadline():
  lost = participation.with_dropouts(participation.uniform(N, 6, 1), 0.3, 1)
  on_time = clock.synchronous(lost, client_speeds("1"), clients_per_round=6, deadline=50.0)
  for t in range(20):
    cohort = on_time(t)
    waited = 50.0 if cohort.measurements["clients/dropped"] else 5.0
    assert cohort.measurements["virtual/idle_seconds"] == waited
    assert cohort.unreported == cohort.measurements["clients/dropped"]


# Running time.


def test_an_arrival_costs_microseconds_with_ten_thousand_clients():
  started = time.process_time()
  pattern = clock.asynchronous(
    10_000,
    10,
    client_speeds(clients=10_000),
    max_staleness=100,
    steps=distributions.parse_integers("steps", "uniform(1, 10)"),
    think_time=distributions.parse("think_time", "lognormal(1000, 1)", at_least=0),
  )
  pattern(4999)
  assert time.process_time() - started < 20  # about 1 s on a quiet core
