"""Default learning rates: each rule's value and reason, and that the defaults of all algorithms learn."""

import pytest

from experiments.checks import default_rates as trials
from tff_momentum import algorithms
from tff_momentum.default_rates import LocalSgd, default_rates, plain, reason, rule_of
from tff_momentum.registry import ALGORITHMS

SGD = LocalSgd(learning_rate=0.3, steps=4.0)


def rates(algo, **given):
  return default_rates(algorithms.builder(algo), SGD, {**ALGORITHMS[algo].hyperparameters, **given})


@pytest.mark.parametrize("algo", ALGORITHMS)
def test_rules_give_hyperparameters_that_the_builder_has_and_say_why(algo):
  found = rates(algo)
  assert set(found) <= set(ALGORITHMS[algo].hyperparameters)
  assert reason(algorithms.builder(algo)).endswith(".")
  if "client_learning_rate" in ALGORITHMS[algo].hyperparameters:
    assert found["client_learning_rate"] > 0


@pytest.mark.parametrize(
  ("algo", "given", "expected"),
  [
    ("fedavg", {}, {"client_learning_rate": 0.3}),
    ("fedavg_lm", {}, {"client_learning_rate": 0.133}),  # 0.3 / mean(1, 1.9, 2.71, 3.439)
    ("fedavg_glm", {}, {"client_learning_rate": 0.03}),
    ("fedpaq_lm", {"beta_l": "step(0.5, every=10)"}, {"client_learning_rate": 0.196}),
    ("mime", {"optimizer": "sgd"}, {"client_learning_rate": 0.3}),
    ("mimelite", {"optimizer": "sgdm(0.5)"}, {"client_learning_rate": 0.15}),
    ("fedgbo", {}, {"client_learning_rate": 0.3}),
    ("mime_mvr", {"a": 0.2}, {"client_learning_rate": 0.06}),
    ("fedsgd", {}, {"server_learning_rate": 0.6}),
    ("fednova", {}, {"client_learning_rate": 0.133}),
    ("fedlion", {}, {"client_learning_rate": 0.003}),
    ("fedmuon", {}, {"client_learning_rate": 0.03}),
    ("mfl", {"optimizer": "muon"}, {"client_learning_rate": 0.03}),
    ("mfl", {"optimizer": "lion"}, {"client_learning_rate": 0.003}),
    ("diloco", {"inner": "sgd"}, {"client_learning_rate": 0.0429}),  # 0.3 / (0.7 / 0.1)
    ("fedsgd", {"optimizer": "sgdm(0.9)"}, {"server_learning_rate": 0.06}),
    ("fedsgd", {"optimizer": "mvr(0.1)"}, {"server_learning_rate": 0.6}),
    ("autofedavg", {}, {"client_learning_rate": 0.3, "server_learning_rate": 4.0}),
  ],
)
def test_a_rule_follows_the_hyperparameters(algo, given, expected):
  assert rates(algo, **given) == expected


def assert_learn_on_digits(algos, folder):
  progress = trials.train("digits", algos, str(folder), jobs=2)
  assert not {algo: share for algo, share in progress.items() if not share >= trials.AT_LEAST}


def test_defaults_that_follow_a_rule_of_their_own_learn_on_digits(tmp_path):
  ruled = [algo for algo in ALGORITHMS if rule_of(algorithms.builder(algo)) is not plain]
  assert len(ruled) > 10
  assert_learn_on_digits(["fedavg", *ruled], tmp_path)


@pytest.mark.slow
def test_defaults_of_all_algorithms_learn_on_digits(tmp_path):
  assert_learn_on_digits(list(ALGORITHMS), tmp_path)
