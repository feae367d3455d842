"""Asynchronous clients, which start from an older model: agreement with the oracle, and identities."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import harness
from tests.oracle import ORACLES, Arrive, Start, events_without_delay
from tff_momentum import algorithms
from tff_momentum.client import LocalWork
from tff_momentum.processes.learning_process import as_learning_process
from tff_momentum.processes.process import ClientInput, build_process
from tff_momentum.transforms.asynchronous import asynchronous

LR = dict(client_learning_rate=0.1)
MOMENTUM = dict(beta=0.6, nu=0.4)
STAGES = [(2, 2.7, 0.5, 0.4), (9, 0.9, 0.8, 0.4)]


def build(name, **hyperparameters):
  return algorithms.builder(name)(**{**LR, **hyperparameters})


# Without delay.


def test_without_delay_autofedgm_is_fedgm_at_rate_over_k():
  """Some clients have no data; the others all take K = 3 steps."""
  work, cohorts = dict(steps=3), harness.COHORTS
  ours = harness.run_product(
    build("autofedgm", server_learning_rate=2.7, **MOMENTUM), cohorts, **work
  )
  plain = harness.run_product(build("fedgm", server_learning_rate=0.9, **MOMENTUM), cohorts, **work)
  harness.assert_same_models(ours.x, plain.x, 2e-6)


def test_without_delay_the_stages_are_fedgms():
  over_k = [(n, eta / 3, beta, nu) for n, eta, beta, nu in STAGES]
  ours = harness.run_product(build("autofedgm_staged", stages=STAGES), steps=3)
  plain = harness.run_product(build("fedgm_staged", stages=over_k), steps=3)
  harness.assert_same_models(ours.x, plain.x, 2e-6)


def test_one_stage_is_a_single_stage():
  one = harness.run_product(build("autofedgm_staged", stages=[(5, 2.0, 0.6, 0.4)]), steps=2)
  single = harness.run_product(build("autofedgm", server_learning_rate=2.0, **MOMENTUM), steps=2)
  harness.assert_same_models(one.x, single.x, 0)


def test_without_momentum_autofedgm_is_autofedavg():
  ours = harness.run_product(build("autofedgm", nu=0.0), epochs=2)
  harness.assert_same_models(ours.x, harness.run_product(build("autofedavg"), epochs=2).x, 1e-6)


# A scripted schedule: arrivals in order of time; a job is (client, version, steps).

SCRIPT = [
  [(0, 0, 3), (1, 0, 1), (3, 0, 5)],
  [(2, 0, 2), (3, 1, 4), (0, 1, 1)],
  [(1, 0, 5), (0, 2, 2), (3, 1, 3)],
  [(3, 3, 1), (3, 0, 4), (2, 1, 2)],
  [(1, 0, 2), (2, 3, 5), (1, 4, 3)],
]


def events(script):
  """The schedule as the oracle reads it: jobs start at their version and arrive at their step."""
  jobs = [(t, k, *job) for t, arrivals in enumerate(script) for k, job in enumerate(arrivals)]
  found = []
  for version in range(len(script)):
    found += [Start((t, k), i, steps) for t, k, i, v, steps in jobs if v == version]
    found += [Arrive((t, k)) for t, k, *_ in jobs if t == version]
  return found


def run_script(process, script=SCRIPT):
  state, models = process.initialize(), []
  for t, arrivals in enumerate(script):
    clients = [
      ClientInput(
        harness.client_seed(t, k),
        (),
        harness.client_dataset(i),
        steps=np.int32(steps),
        staleness=np.int32(t - version),
      )
      for k, (i, version, steps) in enumerate(arrivals)
    ]
    state = process.next(state, clients).state
    models.append(harness.flatten(process.weights(state)))
  return models, state


def uneven(algorithm):
  return build_process(algorithm, harness.softmax_model(), work=LocalWork(uneven=True))


@pytest.mark.parametrize("name", ["autofedgm", "autofedgm_staged", "autofedavg"])
def test_scripted_arrivals_agree_with_the_oracle(name):
  """Fifteen arrivals, m = 3, staleness 0 to 4, K of 1 to 5, and a rate that changes with the round."""
  assert {t - v for t, a in enumerate(SCRIPT) for _, v, _ in a} == {0, 1, 2, 3, 4}
  assert {k for a in SCRIPT for *_, k in a} == {1, 2, 3, 4, 5}
  rates = [0.2, 0.1, 0.05, 0.15, 0.1]
  product_rate = "multistage([1, 1, 1, 1, 1], [0.2, 0.1, 0.05, 0.15, 0.1])"
  own = {
    "autofedgm": dict(server_learning_rate=1.5, **MOMENTUM),
    "autofedgm_staged": dict(stages=STAGES),
    "autofedavg": dict(server_learning_rate=1.5),
  }[name]
  algorithm = build(name, client_learning_rate=product_rate, max_staleness=4, **own)
  models, state = run_script(uneven(algorithm))
  oracle = ORACLES["autofedgm" if name == "autofedgm_staged" else name]
  expected = oracle(
    harness.oracle_problem(),
    events(SCRIPT),
    client_learning_rate=lambda t: rates[t],
    m=3,
    max_staleness=4,
    **own,
  )
  harness.assert_same_models(models, expected.x)
  assert expected.server["dropped"] == 0
  if name != "autofedavg":
    d = harness.flatten(state.server.inner.d)
    np.testing.assert_allclose(d, expected.server["d"], rtol=1e-5, atol=1e-5)


def test_arrivals_can_be_weighted_by_examples():
  own = dict(server_learning_rate=2.0, client_weighting="num_examples", **MOMENTUM)
  cohorts = [[0, 1], [2, 3]]
  ours = harness.run_product(build("autofedgm", **own), cohorts, steps=3)
  scripted = events_without_delay(cohorts, 3)
  expected = ORACLES["autofedgm"](harness.oracle_problem(), scripted, m=2, **LR, **own)
  harness.assert_same_models(ours.x, expected.x)


# Any stateless algorithm.


@pytest.mark.parametrize("name", ["mime_mvr", "ghbm"])
def test_without_delay_an_asynchronous_algorithm_is_the_algorithm(name):
  algorithm = build(name)
  ours = harness.run_product(asynchronous(algorithm, 2))
  harness.assert_same_models(ours.x, harness.run_product(algorithm).x, 0)


def test_a_late_client_sees_the_statistic_of_its_version():
  """FedCM's message is (x, m): the update of a late client is that of its starting round."""
  algorithm = build("fedcm", alpha=0.5)
  late = asynchronous(algorithm, 3)
  process = build_process(late, harness.softmax_model())
  plain = harness.run_product(algorithm, [[0], [3], [1]])
  states = [plain.process.initialize(), *plain.states]

  def step(state, i, age, t):
    one = ClientInput(
      harness.client_seed(t, i), (), harness.client_dataset(i), staleness=np.int32(age)
    )
    return process.next(state, [one]).state

  state = process.initialize()
  for t, i in enumerate((0, 3)):
    state = step(state, i, 0, t)
  for age in (0, 1, 2):
    # One synchronous round of the client alone, from the version it saw, gives its Δ.
    seen = states[2 - age]
    alone = plain.process.next(
      seen, [ClientInput(harness.client_seed(2, 1), (), harness.client_dataset(1))]
    ).state
    delta = harness.flatten(plain.process.weights(seen)) - harness.flatten(
      plain.process.weights(alone)
    )
    expected = harness.flatten(process.weights(state)) - delta
    found = harness.flatten(process.weights(step(state, 1, age, 2)))
    np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-6)


def test_a_round_of_nobody_leaves_older_versions_reachable():
  """Round 1 has no data, so a client that started in it saw the model of round 2, too."""
  process = build_process(asynchronous(build("fedavg"), 2), harness.softmax_model())

  def step(state, t, i, age):
    one = ClientInput(
      harness.client_seed(t, i), (), harness.client_dataset(i), staleness=np.int32(age)
    )
    return process.next(state, [one]).state

  first = step(process.initialize(), 0, 0, 0)
  nobody = step(first, 1, 4, 0)
  third = step(nobody, 2, 3, 0)
  from_round_1, from_round_2 = step(third, 3, 1, 2), step(third, 3, 1, 1)
  np.testing.assert_array_equal(
    harness.flatten(process.weights(from_round_1)), harness.flatten(process.weights(from_round_2))
  )
  fresh = step(third, 3, 1, 0)
  assert np.any(
    harness.flatten(process.weights(fresh)) != harness.flatten(process.weights(from_round_1))
  )


def test_memory_is_bounded_and_a_client_downloads_one_message():
  process, plain = (
    build_process(algorithm, harness.softmax_model())
    for algorithm in (asynchronous(build("mime"), 5), build("mime"))
  )
  assert process.bytes_down(1) == plain.bytes_down(1)
  assert process.bytes_up(1) == plain.bytes_up(1)
  held, own = (
    sum(np.asarray(leaf).nbytes for leaf in tf.nest.flatten(p.initialize().server))
    for p in (process, plain)
  )
  assert held == own + 5 * (plain.bytes_down(1) + 4)  # each message with the number of its round


def test_what_cannot_run_asynchronously_is_refused():
  for name, more in (("scaffold", {"num_clients": 5}), ("fedhbm", {}), ("fedcomgate", {})):
    with pytest.raises(ValueError, match="keep no state"):
      asynchronous(build(name, **more), 3)
  with pytest.raises(ValueError, match="found an asynchronous one"):
    asynchronous(build("autofedgm"), 3)
  with pytest.raises(ValueError, match="max_staleness"):
    asynchronous(build("fedavg"), 0)


def test_becomes_a_learning_process():
  process = as_learning_process(build("autofedgm", **MOMENTUM), harness.softmax_model())
  state = process.initialize()
  for cohort in harness.COHORTS:
    state = process.next(state, [harness.client_dataset(i) for i in cohort]).state
  plain = harness.run_product(build("autofedgm", **MOMENTUM))
  np.testing.assert_array_equal(
    harness.flatten(process.get_model_weights(state).trainable), plain.x[-1]
  )
