"""The server step: agreement with the oracle, and identities."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import harness, shared_runs
from tests.oracle import ORACLES, Problem, base_optimizers, max_entropy_penalty, published
from tests.oracle.problem import G
from tff_momentum import algorithms
from tff_momentum.algorithms.fedgm_staged import stages_from
from tff_momentum.models import keras
from tff_momentum.schedules import exponential

LR = {"client_learning_rate": 0.1}
BY_EXAMPLES = {"client_weighting": "num_examples"}
STAGES = ((1, 0.9, 0.5, 0.6), (9, 0.6, 0.7, 0.4))


def expected(name, *, cohorts=harness.COHORTS, work=shared_runs.WORK, **hyperparameters):
  return ORACLES[name](harness.oracle_problem(**dict(work)), cohorts, **hyperparameters)


CASES = {
  "fedprox": {**LR, "mu": 0.7, "server_learning_rate": 0.8},
  "fedavg_lm": {**LR, "beta_l": 0.6, "server_learning_rate": 0.8},
  "fedavg_glm": {**LR, "beta_l": 0.6, "beta": 0.7, **BY_EXAMPLES},
  "fedadagrad": {**LR, "server_learning_rate": 0.05, "beta1": 0.3},
  "fedadam": {**LR, "server_learning_rate": 0.05, "beta1": 0.6, "beta2": 0.8, **BY_EXAMPLES},
  "fedyogi": {**LR, "server_learning_rate": 0.05, "beta2": 0.8, "epsilon": 0.01, "v0": 0.001},
  "fedrmsprop": {**LR, "server_learning_rate": 0.05, "beta2": 0.7, "v0": 0.01},
  "fednag": {**LR, "beta": 0.7, "server_learning_rate": 0.8},
}


@pytest.mark.parametrize("name", CASES)
def test_agrees_with_the_oracle(name):
  harness.assert_same_models(
    shared_runs.run(name, **CASES[name]).x, expected(name, **CASES[name]).x
  )


def test_stages_agree_with_the_oracle():
  run = shared_runs.run("fedgm_staged", stages=STAGES, **LR)
  harness.assert_same_models(run.x, expected("fedgm", stages=STAGES, **LR).x)


def test_rates_may_be_schedules():
  rates = {"client_learning_rate": 0.2, "server_learning_rate": 0.9}
  ours = {name: exponential(value, decay=0.5) for name, value in rates.items()}
  theirs = {name: lambda t, value=value: value * 0.5**t for name, value in rates.items()}
  run = shared_runs.run("fedprox", mu=0.7, **ours)
  harness.assert_same_models(run.x, expected("fedprox", mu=0.7, **theirs).x)


BASES = {**shared_runs.BASES, "mvr(0.3)": base_optimizers.mvr(0.3)}


@pytest.mark.parametrize("optimizer", BASES)
def test_fedsgd_agrees_with_the_oracle(optimizer):
  run = shared_runs.run("fedsgd", optimizer=optimizer, server_learning_rate=0.1)
  oracle = expected("fedsgd", optimizer=BASES[optimizer], server_learning_rate=0.1)
  harness.assert_same_models(run.x, oracle.x)


SCHEMES = {
  "fedsnv": (published.snv, {"alpha": 0.11, "beta1": 0.6, "beta2": 0.35}),
  "fedpid": (published.pid, {"k_p": -0.02, "k_i": 0.09, "k_d": 0.03}),
  "fedasgd": (published.asgd, {"delta": 0.05, "kappa": 9.0, "xi": 2.5, "epsilon": 0.7}),
  "fedtm": (published.triple_momentum, {"L": 9.0, "kappa": 20.0}),
}


@pytest.mark.parametrize("name", SCHEMES)
def test_a_scheme_agrees_with_the_oracle_and_with_its_published_recursion(name):
  """The recursion has one client, one batch and one step with η_l = 1, so Δ is the gradient."""
  recursion, parameters = SCHEMES[name]
  hyperparameters = {"client_learning_rate": 1.0, **parameters}
  work = (("epochs", 1), ("weight_decay", 0.1))
  run = shared_runs.run(name, work=work, **hyperparameters)
  harness.assert_same_models(run.x, expected(name, work=work, **hyperparameters).x)

  problem = harness.oracle_problem(**dict(work))
  assert len(problem.clients[2]) == 1
  constants = dict(parameters)
  if name == "fedpid":
    constants["beta"] = constants["k_d"] / (constants["k_d"] - constants["k_p"])
  points = recursion(lambda x: G(problem, 2, x), problem.x0, 20, **constants)
  twenty = shared_runs.run(name, work=work, cohorts=((2,),) * 20, **hyperparameters)
  harness.assert_same_models(twenty.x, points)
  assert np.linalg.norm(points[-1] - points[0]) > 0.05


# FedMAX on a network with a hidden layer.


def network():
  def build():
    return tf.keras.Sequential(
      [
        tf.keras.layers.Dense(
          5, "tanh", input_shape=(harness.FEATURES,), name="hidden", bias_initializer="normal"
        ),
        tf.keras.layers.Dense(harness.CLASSES),
      ]
    )

  return keras.from_keras(
    build,
    loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
    batch_spec=harness.softmax_model().batch_spec,
    penultimate="hidden",
  )


def network_problem(alpha, direction, x0, **work) -> Problem:
  """The same network in NumPy, with a hand-written gradient that includes FedMAX's penalty."""
  shapes = [(harness.FEATURES, 5), (5,), (5, harness.CLASSES), (harness.CLASSES,)]
  sizes = [int(np.prod(shape)) for shape in shapes]

  def gradient(flat, batch):
    x, y = batch
    parts = np.split(flat, np.cumsum(sizes)[:-1])
    W1, b1, W2, b2 = (part.reshape(shape) for part, shape in zip(parts, shapes, strict=True))
    a = np.tanh(x @ W1 + b1)
    p = np.exp(a @ W2 + b2)
    p /= p.sum(1, keepdims=True)
    p[np.arange(len(y)), y] -= 1
    p /= len(y)
    z = (p @ W2.T + alpha * max_entropy_penalty(a, direction)[1]) * (1 - a**2)
    return np.concatenate([(x.T @ z).ravel(), z.sum(0), (a.T @ p).ravel(), p.sum(0)])

  return harness.oracle_problem(**work)._replace(x0=x0, gradient=gradient, splits=tuple(sizes))


@pytest.mark.parametrize("direction", ["forward", "reverse"])
def test_fedmax_agrees_with_the_oracle(direction):
  run = shared_runs.run("fedmax", model=network, alpha=0.8, direction=direction, **LR)
  x0 = harness.flatten(network().initial_weights)
  problem = network_problem(0.8, direction, x0, **dict(shared_runs.WORK))
  harness.assert_same_models(run.x, ORACLES["fedmax"](problem, harness.COHORTS, **LR).x)
  plain = ORACLES["fedavg"](
    network_problem(0.0, direction, x0, **dict(shared_runs.WORK)), harness.COHORTS, **LR
  )
  assert np.abs(plain.x[-1] - run.x[-1]).max() > 1e-3


def test_fedmax_without_its_penalty_is_fedavg():
  plain = shared_runs.run("fedavg", model=network, **LR)
  shared_runs.assert_same(shared_runs.run("fedmax", model=network, alpha=0.0, **LR), plain)


def test_fedmax_refuses_a_model_without_a_penultimate_layer():
  with pytest.raises(ValueError, match="penultimate layer"):
    shared_runs.process("fedmax", **LR)


# Identities.

TWINS = {
  "fedprox": {"mu": 0.0},
  "fedavg_lm": {"beta_l": 0.0},
  "fedavg_glm": {"beta": 0.0, "beta_l": 0.0},
  "fedavgm": {"beta": 0.0},
  "fedgm": {"beta": 0.7, "nu": 0.0},
}
RATES = {"server_learning_rate": 0.7, **LR}


@pytest.mark.parametrize("name", TWINS)
def test_without_its_correction_an_algorithm_is_fedavg(name):
  shared_runs.assert_same(
    shared_runs.run(name, **TWINS[name], **RATES), shared_runs.run("fedavg", **RATES)
  )


def test_fedgm_contains_fedavgm_and_fednag_and_a_single_stage():
  run = shared_runs.run("fedgm", beta=0.7, nu=1.0, **RATES)
  heavy = shared_runs.run(
    "fedavgm", beta=0.7, client_learning_rate=0.1, server_learning_rate=0.7 * 0.3
  )
  shared_runs.assert_same(run, heavy)

  nesterov = shared_runs.run("fedgm", beta=0.7, nu=0.7, server_learning_rate=0.8, **LR)
  shared_runs.assert_same(shared_runs.run("fednag", **CASES["fednag"]), nesterov)
  one = shared_runs.run("fedgm_staged", stages=((5, 0.8, 0.7, 0.7),), **LR)
  shared_runs.assert_same(one, nesterov)


def test_adaptive_steps_without_memory_coincide():
  """β₁ = 0 makes FedAdam FedRMSProp, and in the first round β₂ = 0 makes all v equal Δ²."""
  rates = {**LR, "server_learning_rate": 0.05, "beta2": 0.7, "v0": 0.01}
  shared_runs.assert_same(
    shared_runs.run("fedadam", beta1=0.0, **rates),
    shared_runs.run("fedrmsprop", **CASES["fedrmsprop"]),
  )


def test_the_default_snv_is_the_default_nag():
  shared_runs.assert_same(shared_runs.run("fedsnv", **LR), shared_runs.run("fednag", **LR))


def test_fedsgd_with_all_variance_kept_is_plain_sgd():
  plain = shared_runs.run("fedsgd", optimizer="sgd", server_learning_rate=0.1)
  shared_runs.assert_same(
    shared_runs.run("fedsgd", optimizer="mvr(1.0)", server_learning_rate=0.1), plain
  )


def test_stages_from_keeps_the_papers_constants():
  stages = stages_from(1000, 3, eta=2.0, beta=0.7, nu=0.9)
  assert np.cumsum([stage.rounds for stage in stages]).tolist() == [143, 429, 1000]
  assert [stage.eta for stage in stages] == [2.0, 1.0, 0.5]
  w1 = [s.eta * s.beta * s.nu / (1 - s.beta) for s in stages]
  np.testing.assert_allclose(w1, 2 * 0.7 * 0.9 / 0.3)
  np.testing.assert_allclose([s.rounds * s.eta for s in stages], 286, atol=1)


@pytest.mark.parametrize(
  ("stages", "reason"),
  [
    ([], "at least one"),
    ([(5, 1.0, 0.5)], "four numbers each"),
    (7, "four numbers each"),
    ([(5, 1.0, 0.5, 0.9), (5, 2.0, 0.6, 0.9)], "eta falling and beta rising"),
    ([(5, 1.0, 0.5, 0.9), (5, 0.5, 0.4, 0.9)], "eta falling and beta rising"),
    ([(5, 1.0, 0.5, 0.9), (5, "0.5", 0.6, 0.9)], "finite number"),
    ([(0, 1.0, 0.5, 0.9)], "whole number of at least 1"),
    ([(5, -1.0, 0.5, 0.9)], "above 0"),
    ("stages_form(10, 2, 1.0, 0.5, 0.9)", "Did you mean stages_from"),
    ("stages_from(1, 2, 1.0, 0.5, 0.9)", "rounds must be a whole number of at least 2"),
  ],
)
def test_bad_stages_are_refused(stages, reason):
  with pytest.raises(ValueError, match=reason):
    algorithms.fedgm_staged(stages=stages, **LR)


def test_momentum_that_turns_negative_is_refused():
  with pytest.raises(ValueError, match=r"xi must be .* at most 4"):
    algorithms.fedasgd(kappa=1.0, xi=5.0, epsilon=0.5, **LR)
