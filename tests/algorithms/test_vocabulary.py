"""Agreement with the oracle for a few algorithms that together use every part of `Algorithm`."""

import pytest

from tests.helpers import harness
from tests.oracle import ORACLES, base_optimizers
from tff_momentum import algorithms, optimizers

N = len(harness.SIZES)
TOTAL = sum(harness.SIZES)
CASES = {
  "fedavg": ("fedavg", dict(client_learning_rate=0.1, server_learning_rate=0.7), {}),
  "fedavg, by examples": (
    "fedavg",
    dict(client_learning_rate=0.1, client_weighting="num_examples"),
    {},
  ),
  "fedavgm": ("fedavgm", dict(client_learning_rate=0.1, beta=0.8), {}),
  "fedgm": ("fedgm", dict(client_learning_rate=0.1, beta=0.8, nu=0.6), {}),
  "scaffold I": (
    "scaffold",
    dict(client_learning_rate=0.1, server_learning_rate=0.9, option="I"),
    dict(num_clients=N),
  ),
  "scaffold II": ("scaffold", dict(client_learning_rate=0.1), dict(num_clients=N)),
  "scaffold, by examples": (
    "scaffold",
    dict(client_learning_rate=0.1, client_weighting="num_examples"),
    dict(num_clients=N, total_examples=TOTAL),
  ),
  "ghbm": ("ghbm", dict(client_learning_rate=0.1, beta=0.8, tau=2), {}),
  "ghbm, initial": ("ghbm", dict(client_learning_rate=0.1, beta=0.8, tau=2, early="initial"), {}),
}
WORK = [dict(epochs=2), dict(steps=3), dict(epochs=1, weight_decay=0.1)]


@pytest.mark.parametrize("work", WORK, ids=str)
@pytest.mark.parametrize("case", CASES)
def test_agrees_with_the_oracle(case, work):
  name, shared, own = CASES[case]
  expected = ORACLES[name](harness.oracle_problem(**work), harness.COHORTS, **shared)
  run = harness.run_product(algorithms.builder(name)(**shared, **own), **work)
  harness.assert_same_models(run.x, expected.x)


OPTIMIZERS = {
  "sgd()": base_optimizers.sgd(),
  "sgdm(0.9)": base_optimizers.sgdm(0.9),
  "sgdm(0.9, dampened=True)": base_optimizers.sgdm(0.9, dampened=True),
  "rmsprop(0.9, epsilon=0.01, v0=1.0)": base_optimizers.rmsprop(0.9, 0.01, 1.0),
  "adagrad(epsilon=0.01, v0=1.0)": base_optimizers.adagrad(0.01, 1.0),
  "adam(0.9, 0.99, epsilon=0.01, v0=1.0)": base_optimizers.adam(0.9, 0.99, 0.01, 1.0),
}


@pytest.mark.parametrize("optimizer", OPTIMIZERS)
@pytest.mark.parametrize("name", ["mime", "mimelite"])
def test_mime_agrees_with_the_oracle(name, optimizer):
  expected = ORACLES[name](
    harness.oracle_problem(epochs=2),
    harness.COHORTS,
    client_learning_rate=0.1,
    optimizer=OPTIMIZERS[optimizer],
  )
  algorithm = algorithms.builder(name)(
    client_learning_rate=0.1, optimizer=optimizers.optimizer(optimizer)
  )
  harness.assert_same_models(harness.run_product(algorithm, epochs=2).x, expected.x)
