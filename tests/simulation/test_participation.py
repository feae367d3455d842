"""Who takes part: the patterns, drop-outs, uneven work, and how the round loop takes them."""

import numpy as np
import pytest

from tests.helpers import contract_problem as problem
from tests.helpers import harness
from tests.oracle import ORACLES
from tff_momentum import algorithms
from tff_momentum.client import LocalWork
from tff_momentum.processes.process import build_process
from tff_momentum.simulation import distributions, loop, participation

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


def test_clients_are_there_for_their_share_of_the_day():
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


def test_drop_outs_are_as_many_as_asked_for_and_counted():
  cohorts = [PATTERNS["dropouts"](t) for t in range(500)]
  dropped = [c.measurements["clients/dropped"] for c in cohorts]
  assert 0.25 < sum(dropped) / (500 * S) < 0.35
  for t, (cohort, lost) in enumerate(zip(cohorts, dropped, strict=True)):
    assert len(cohort.clients) + lost == S
    assert cohort.unreported == lost
    assert set(cohort.clients) <= set(PATTERNS["uniform"](t).clients)
    assert cohort.measurements["rounds/skipped"] == (not cohort.clients)


def test_steps_follow_their_law():
  steps = [k for t in range(500) for k in PATTERNS["steps"](t).steps]
  counts = np.bincount(steps, minlength=11)
  assert counts[0] == 0
  assert counts[1:].min() > 0.7 * 200
  assert counts[1:].max() < 1.3 * 200


# Laws.


def test_laws_have_their_means(tmp_path):
  rng, clients = np.random.default_rng(1), np.arange(20000)
  for text, mean in (("3", 3), ("constant(2)", 2), ("uniform(1, 3)", 2), ("lognormal(5, 0.5)", 5)):
    assert distributions.parse("x", text).draw(rng, clients, 0).mean() == pytest.approx(
      mean, rel=0.02
    )
  (tmp_path / "trace.csv").write_text("1,2\n5\n")
  trace = distributions.parse_integers("x", f"trace:{tmp_path / 'trace.csv'}")
  assert trace.draw(rng, clients[:3], 0).tolist() == [1, 5, 1]
  assert trace.draw(rng, clients[:3], 3).tolist() == [2, 5, 2]


BAD_LAWS = [
  "", "fast", "gauss(1, 2)", "uniform(1)", "uniform(3, 1)", "uniform(0, 1)", "constant(-1)",
  "constant(nan)", "lognormal(0, 1)", "lognormal(1, -1)", "lognormal('a', 1)", "[1]", "trace:nowhere.csv",
  "__import__('os')", "constant(constant(1))",
]  # fmt: skip


@pytest.mark.parametrize("text", BAD_LAWS)
@pytest.mark.parametrize("whole", [True, False])
def test_a_bad_law_is_one_sentence(text, whole):
  with pytest.raises(ValueError, match="client_speed") as error:
    distributions.parse_integers("client_speed", text) if whole else distributions.parse(
      "client_speed", text, above=0
    )
  assert "\n" not in str(error.value)
  assert str(error.value)[-1] in ".?"


@pytest.mark.parametrize("text", ["", "a\n", "1\n0\n", "1,,2\n", "1 2\n"])
def test_a_bad_trace_is_one_sentence(tmp_path, text):
  (tmp_path / "trace.csv").write_text(text)
  with pytest.raises(ValueError, match=r"trace\.csv") as error:
    distributions.parse("client_speed", f"trace:{tmp_path / 'trace.csv'}", above=0)
  assert "\n" not in str(error.value)


# Uneven work.


def uneven_run(name, steps, **hyperparameters):
  algorithm = algorithms.builder(name)(client_learning_rate=0.1, **hyperparameters)
  process = build_process(algorithm, harness.softmax_model(), work=LocalWork(epochs=2, uneven=True))
  return harness.run_process(process, steps=steps)


@pytest.mark.parametrize("name", ["scaffold", "mime"])
def test_steps_of_ones_own_equal_the_fixed_number(name):
  more = {"num_clients": 5} if name == "scaffold" else {}
  build = algorithms.builder(name)
  fixed = harness.run_product(build(client_learning_rate=0.1, **more), steps=3)
  told = uneven_run(name, dict.fromkeys(range(5), 3), **more)
  harness.assert_same_models(told.x, fixed.x, 2e-6)
  usual = harness.run_product(build(client_learning_rate=0.1, **more), epochs=2)
  harness.assert_same_models(uneven_run(name, {}, **more).x, usual.x, 2e-6)


def test_uneven_steps_agree_with_the_oracle():
  steps = {0: 5, 1: 1, 2: 4, 3: 2, 4: 3}
  told = uneven_run("fedavg", steps)
  x = harness.oracle_problem().x0
  for t, cohort in enumerate(harness.COHORTS):
    ends = [
      ORACLES["fedavg"](
        harness.oracle_problem(steps=steps[i])._replace(x0=x), [[i]], client_learning_rate=0.1
      ).x[0]
      for i in cohort
      if harness.SIZES[i]
    ]
    x = np.mean(ends, axis=0)
    np.testing.assert_allclose(told.x[t], x, rtol=1e-5, atol=1e-5)


# The round loop.


def run_loop(name, pattern, rounds, *, work=None, **options):
  arguments = {**problem.arguments(name), **options}
  process = build_process(
    algorithms.builder(name)(**arguments), problem.quadratic_model(), work=work or LocalWork()
  )
  return loop.run(
    process, problem.Task(), total_rounds=rounds, participation=pattern, rounds_per_eval=rounds
  )


def test_a_skipped_round_changes_nothing_but_the_count():
  process = build_process(algorithms.fedavgm(client_learning_rate=0.1), problem.quadratic_model())

  def pattern(t):
    return participation.Cohort([] if t == 1 else [0, 1])

  before, after = list(loop.rounds(process, problem.Task(), total_rounds=2, participation=pattern))
  assert int(after.state.round) == 2
  for a, b in zip(process.weights(before.state), process.weights(after.state), strict=True):
    np.testing.assert_array_equal(a, b)


def test_local_ghbm_under_cyclic_participation_is_ghbm():
  pattern = participation.cyclic(6, 2, SEED)
  plain = run_loop("ghbm", pattern, 9, tau=3, beta=0.9).weights
  for scaling in ("elapsed", "participation"):
    local = run_loop(
      "local_ghbm", pattern, 9, beta=0.9, tau_scaling=scaling, participation=1 / 3
    ).weights
    for a, b in zip(plain, local, strict=True):
      np.testing.assert_allclose(a, b, rtol=1e-5, atol=1e-6)


def test_steps_for_a_process_that_takes_none_are_refused():
  with pytest.raises(ValueError, match="uneven=True"):
    run_loop("fedavg", lambda t: participation.Cohort([0, 1], steps=[2, 3]), 1)


def test_an_update_that_is_too_old_is_refused():
  with pytest.raises(ValueError, match="max_staleness=2 rounds ago; found one from 3"):
    run_loop(
      "autofedavg", lambda t: participation.Cohort([0, 1], staleness=[0, 3]), 1, max_staleness=2
    )
