"""Stateful clients: agreement with the oracle, and identities."""

import warnings

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import harness
from tests.oracle import ORACLES
from tff_momentum import algorithms

N = len(harness.SIZES)
TOTAL = sum(harness.SIZES)
LR = dict(client_learning_rate=0.1)
EXAMPLES = dict(client_weighting="num_examples")
UNIFORM = dict(client_weighting="uniform")
EVERYONE = [[0, 1, 2, 3]] * 3

# Case: name, shared hyperparameters, the library's own, and the server statistics to compare.
CASES = {
  "feddyn": ("feddyn", dict(alpha=0.4), dict(num_clients=N), ["h"]),
  "feddyn, by examples": (
    "feddyn",
    dict(alpha=0.4, **EXAMPLES),
    dict(num_clients=N, total_examples=TOTAL),
    ["h"],
  ),
  "adabest": ("adabest", dict(mu=0.3, beta=0.6), {}, ["y_bar"]),
  "adabest, by examples": ("adabest", dict(mu=0.3, beta=0.6, **EXAMPLES), {}, ["y_bar"]),
  "local_ghbm": ("local_ghbm", dict(beta=0.8, server_learning_rate=0.9), {}, []),
  "local_ghbm, participation": (
    "local_ghbm",
    dict(beta=0.8, tau_scaling="participation", participation=0.6, **UNIFORM),
    {},
    [],
  ),
  "fedhbm": ("fedhbm", dict(server_learning_rate=0.9), {}, []),
  "fedhbm, participation": (
    "fedhbm",
    dict(beta=0.9, tau_scaling="participation", participation=0.6, first_round="shared", **UNIFORM),
    {},
    [],
  ),
  "fedhbm, shared": ("fedhbm", dict(beta=0.9, first_round="shared"), {}, []),
  "fedhbm, random": ("fedhbm", dict(beta=0.9, first_round="random"), {}, []),
  "fedcomgate": ("fedcomgate", dict(server_learning_rate=0.7), dict(bits=32), []),
  "fedcomgate, by examples": ("fedcomgate", EXAMPLES, dict(bits=32), []),
}
WORK = [dict(epochs=2), dict(steps=3, weight_decay=0.1)]


def build(name, **hyperparameters):
  return algorithms.builder(name)(**LR, **hyperparameters)


def run(name, cohorts=harness.COHORTS, work=WORK[0], **hyperparameters):
  return harness.run_product(build(name, **hyperparameters), cohorts, **work)


@pytest.mark.parametrize("case", CASES)
def test_agrees_with_the_oracle_client_states_included(case):
  name, shared, own, statistics = CASES[case]
  work = WORK[list(CASES).index(case) % 2]  # every algorithm runs with both
  ours = run(name, work=work, **shared, **own)
  random = {}
  if shared.get("first_round") == "random":
    random["random_model"] = lambda i: harness.flatten(
      ours.process.initial_client_state(harness.client_seed(0, i)).anchor
    )
  expected = ORACLES[name](
    harness.oracle_problem(**work), harness.COHORTS, **LR, **shared, **random
  )
  harness.assert_same_models(ours.x, expected.x)
  for letter in statistics:
    actual = harness.flatten(getattr(ours.states[-1].server, letter))
    np.testing.assert_allclose(actual, expected.server[letter], rtol=1e-5, atol=1e-5)
  for i, state in expected.clients.items():
    wanted = np.concatenate([np.ravel(part) for part in tf.nest.flatten(state)])
    np.testing.assert_allclose(
      harness.flatten(ours.clients[i]), wanted, rtol=1e-5, atol=1e-5, err_msg=f"client {i}"
    )


def test_a_client_without_data_keeps_its_state():
  ours = run("adabest", mu=0.3)
  assert set(ours.clients) == {0, 1, 2, 3, 4}
  assert not harness.flatten(ours.clients[4]).any()


def test_without_momentum_the_heavy_balls_are_fedavg_by_examples():
  plain = run("fedavg", **EXAMPLES).x
  for name in ("local_ghbm", "fedhbm"):
    harness.assert_same_models(run(name, beta=0.0).x, plain)


def test_local_ghbm_under_cyclic_participation_is_ghbm():
  cyclic = [[0, 1], [2, 3]] * 3
  plain = run("ghbm", cyclic, beta=0.9, tau=2).x
  for scaling in ("elapsed", "participation"):
    ours = run("local_ghbm", cyclic, beta=0.9, tau_scaling=scaling, participation=0.5)
    harness.assert_same_models(ours.x, plain)


def test_scaffold_alone_stays_fedavg_and_so_its_first_round_is():
  plain = run("fedavg", [[3]] * 3).x
  for option in ("I", "II"):
    alone = run("scaffold", [[3]] * 3, num_clients=1, option=option)
    harness.assert_same_models(alone.x, plain)


def test_fedcomgate_without_compression_is_scaffold_and_both_start_as_fedavg():
  work, both = dict(steps=3), dict(server_learning_rate=0.7)
  ours = run("fedcomgate", EVERYONE, work, bits=32, **both).x
  harness.assert_same_models(ours, run("scaffold", EVERYONE, work, num_clients=4, **both).x)
  harness.assert_same_models(ours[:1], run("fedavg", EVERYONE[:1], work, **both).x)


def test_feddyns_first_round_is_fedprox_and_h_stays_the_mean_of_all_g_i():
  ours = run("feddyn", alpha=0.4, num_clients=N)
  prox = run("fedprox", harness.COHORTS[:1], mu=0.4, server_learning_rate=1 + 3 / N)
  harness.assert_same_models(ours.x[:1], prox.x)
  mean = sum(harness.flatten(g_i) for g_i in ours.clients.values()) / N
  np.testing.assert_allclose(harness.flatten(ours.states[-1].server.h), mean, atol=1e-6)


def test_adabests_first_round_is_fedavg_with_rate_one_plus_beta():
  ours = run("adabest", harness.COHORTS[:1], mu=0.3, beta=0.6).x
  plain = run("fedavg", harness.COHORTS[:1], server_learning_rate=1.6).x
  harness.assert_same_models(ours, plain)


def test_a_random_first_anchor_is_the_clients_own_and_looks_like_an_initialisation():
  init = build("fedhbm", first_round="random").init_client
  weights = (tf.random.stateless_normal([40, 25], [1, 2]), tf.zeros([25]), tf.ones([25]))
  ours, again, other = (init(weights, tf.constant([5, s])).anchor for s in (1, 1, 2))
  np.testing.assert_array_equal(ours[0], again[0])
  assert np.abs(np.corrcoef(np.ravel(ours[0]), np.ravel(other[0]))[0, 1]) < 0.1
  assert np.abs(np.corrcoef(np.ravel(ours[0]), np.ravel(weights[0]))[0, 1]) < 0.1
  np.testing.assert_array_equal(np.sort(np.ravel(ours[0])), np.sort(np.ravel(weights[0])))
  np.testing.assert_array_equal(ours[1], np.zeros(25))
  np.testing.assert_array_equal(ours[2], np.ones(25))


@pytest.mark.parametrize(
  ("beta", "scaling", "participation", "warns"),
  [
    (1.0, "elapsed", 0.1, False),
    (1.0, "elapsed", 0.5, False),
    (1.0, "elapsed", 0.6, True),
    (1.0, "participation", 0.6, False),
    (1.0, "participation", 0.8, True),
    (0.9, "elapsed", 1.0, True),
    (0.6, "elapsed", 1.0, False),
    (0.6, "participation", 1.0, False),
    (1.0, "elapsed", None, False),
  ],
)
def test_fedhbm_warns_where_it_is_likely_to_diverge(beta, scaling, participation, warns):
  def call():
    build("fedhbm", beta=beta, tau_scaling=scaling, participation=participation)

  if warns:
    with pytest.warns(UserWarning, match="likely to diverge"):
      call()
  else:
    with warnings.catch_warnings():
      warnings.simplefilter("error")
      call()


BAD = [
  ("feddyn", dict(num_clients=0), "num_clients must be"),
  ("feddyn", dict(num_clients=5, alpha=0.0), "alpha must be"),
  ("feddyn", dict(num_clients=5, client_weighting="size"), "client_weighting must be"),
  ("feddyn", dict(num_clients=5, client_weighting="num_examples"), "total_examples must be"),
  ("adabest", dict(mu=-1), "mu must be"),
  ("adabest", dict(beta=1.0), "beta must be"),
  ("adabest", dict(client_weighting="size"), "client_weighting must be"),
  ("local_ghbm", dict(beta=1.1), "beta must be"),
  ("local_ghbm", dict(tau_scaling="none"), "tau_scaling must be"),
  ("local_ghbm", dict(tau_scaling="participation"), "participation must be"),
  ("fedhbm", dict(participation=2), "participation must be"),
  ("fedhbm", dict(first_round="zero"), "first_round must be"),
  ("fedhbm", dict(server_learning_rate=0), "server_learning_rate must be"),
  ("fedcomgate", dict(bits=1), "bits must be"),
  ("fedcomgate", dict(server_learning_rate=-1), "server_learning_rate must be"),
]


@pytest.mark.parametrize(("name", "hyperparameters", "message"), BAD, ids=str)
def test_a_bad_hyperparameter_is_refused(name, hyperparameters, message):
  with pytest.raises(ValueError, match=message):
    build(name, **hyperparameters)
