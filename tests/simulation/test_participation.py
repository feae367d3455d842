"""Participation: the patterns that select clients, dropout, and clients' own numbers of steps."""

import numpy as np
import pytest

from tff_momentum.simulation import distributions, participation

N, S, SEED = 20, 4, 3
DAYS = participation.DailyAvailability(
  N, 8.0, distributions.parse("share", "uniform(0.2, 0.6)"), SEED
)
SIZES = [0] * 5 + [1] * 10 + [30] * 5
PATTERNS = {
  "uniform": participation.uniform(N, S, SEED),
  "cyclic": participation.cyclic(N, S, SEED),
  "same": participation.same(N, S, SEED),
  "proportional": participation.proportional(SIZES, S, SEED),
  "available": participation.available(N, S, SEED, days=DAYS),
  "dropouts": participation.with_dropouts(participation.uniform(N, S, SEED), 0.3, SEED),
  "steps": participation.with_steps(
    participation.uniform(N, S, SEED), distributions.parse_integers("steps", "uniform(1, 10)"), SEED
  ),
}


@pytest.mark.parametrize("name", PATTERNS)
def test_a_cohort_is_a_function_of_the_round(name):
  pattern = PATTERNS[name]
  assert [pattern(t) for t in range(9)] == [pattern(t) for t in range(9)]
  for t in range(9):
    clients = pattern(t).clients
    assert len(set(clients)) == len(clients) <= S
    assert set(clients) <= set(range(N))
    assert pattern(t).measurements.keys() == pattern(0).measurements.keys()


@pytest.mark.parametrize(("clients", "size"), [(20, 4), (20, 6), (7, 7), (5, 1)])
def test_cyclic_has_each_client_exactly_once_in_a_cycle(clients, size):
  pattern = participation.cyclic(clients, size, SEED)
  period = -(-clients // size)
  cycle = [i for t in range(period) for i in pattern(t).clients]
  assert sorted(cycle) == list(range(clients))
  assert all(pattern(t).clients == pattern(t + period).clients for t in range(period))
  assert pattern(0).clients != participation.cyclic(clients, size, SEED + 1)(0).clients or size == 7


def test_the_same_clients_take_part_in_every_round():
  assert len({tuple(PATTERNS["same"](t).clients) for t in range(9)}) == 1


def test_clients_take_part_in_proportion_to_their_data():
  counts = np.bincount([i for t in range(400) for i in PATTERNS["proportional"](t).clients])
  assert not counts[:5].any()
  assert counts[15:].min() > 5 * counts[5:15].max()
  with pytest.raises(ValueError, match="clients with data, 15; found 16"):
    participation.proportional(SIZES, 16, SEED)


def test_clients_are_available_for_their_share_of_the_day():
  there = np.array([DAYS.waiting(np.arange(N), t / 10) == 0 for t in range(800)])
  shares = there.mean(axis=0)
  assert 0.19 < shares.min() < shares.max() < 0.61
  wait = DAYS.waiting(np.arange(N), 5.0)
  assert np.all(DAYS.waiting(np.arange(N)[wait > 0], 5.0 + wait[wait > 0].max() + 8) < 8)
  for i in range(N):
    assert DAYS.waiting(np.array([i]), 5.0 + float(wait[i]) + 1e-9)[0] == 0
  pattern = PATTERNS["available"]
  for t in range(40):
    cohort = pattern(t)
    assert not DAYS.waiting(np.array(cohort.clients, int), t).any()
    assert len(cohort.clients) == min(S, cohort.measurements["clients/available"])


def test_dropouts_have_the_given_rate_and_are_counted():
  cohorts = [PATTERNS["dropouts"](t) for t in range(500)]
  dropped = [c.measurements["clients/dropped"] for c in cohorts]
  assert 0.25 < sum(dropped) / (500 * S) < 0.35
  for t, (cohort, lost) in enumerate(zip(cohorts, dropped, strict=True)):
    assert len(cohort.clients) + lost == S
    assert cohort.unreported == lost
    assert set(cohort.clients) <= set(PATTERNS["uniform"](t).clients)
    assert cohort.measurements["rounds/skipped"] == (not cohort.clients)


def test_steps_follow_their_distribution():
  steps = [k for t in range(500) for k in PATTERNS["steps"](t).steps]
  counts = np.bincount(steps, minlength=11)
  assert counts[0] == 0
  assert counts[1:].min() > 0.7 * 200
  assert counts[1:].max() < 1.3 * 200
