"""The newer algorithms: agreement with the oracle, and every identity with another algorithm."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import direct_runs, harness, shared_runs
from tests.oracle import ORACLES
from tff_momentum import adaptive_steps, algorithms, describe
from tff_momentum.processes.process import build_process
from tff_momentum.schedules import exponential

N, TOTAL = len(harness.SIZES), sum(harness.SIZES)
LR = {"client_learning_rate": 0.1}
SMALL = {"client_learning_rate": 0.02}
BY_EXAMPLES = {"client_weighting": "num_examples"}
EVERYONE = ((0, 1, 2, 3),) * 3
FIRST = (tuple(harness.COHORTS[0]),)
EQUAL = (("steps", 3), ("weight_decay", 0.1))
ADAMW = {"beta1": 0.8, "beta2": 0.9, "epsilon": 1e-3, "decoupled_weight_decay": 0.05}

# Case: name, the hyperparameters of both, the library's own, and the server statistics to compare.
CASES = {
  "fedacg": ("fedacg", {**LR, "beta": 0.7, "mu": 0.4}, {}, ["m"]),
  "fedacg, by examples": ("fedacg", {**LR, "beta": 0.7, "mu": 0.4, **BY_EXAMPLES}, {}, ["m"]),
  "scaffold_m": (
    "scaffold_m",
    {**LR, "alpha": 0.3, "server_learning_rate": 0.8},
    {"num_clients": N},
    ["c", "m"],
  ),
  "scaffold_m, by examples": (
    "scaffold_m",
    {**LR, "alpha": 0.3, **BY_EXAMPLES},
    {"num_clients": N, "total_examples": TOTAL},
    ["c", "m"],
  ),
  "fednova": ("fednova", {**LR, "beta_l": 0.6, "server_learning_rate": 0.8}, {}, ["m"]),
  "fednova, prox": ("fednova", {**LR, "beta_l": 0.0, "mu": 0.4, "beta": 0.5}, {}, ["m"]),
  "fednova, norm": (
    "fednova",
    {**LR, "beta_l": 0.0, "mu": 0.4, "effective_steps": "norm", "client_weighting": "uniform"},
    {},
    ["m"],
  ),
  "fedexp": ("fedexp", {**LR, "epsilon": 1e-3, "mu": 0.2}, {}, []),
  "fedexp, mean of two": (
    "fedexp",
    {**LR, "epsilon": 1e-3, "evaluate": "mean_of_two", **BY_EXAMPLES},
    {},
    [],
  ),
  "fedinit": ("fedinit", {**LR, "beta": 0.3, "server_learning_rate": 0.8}, {}, []),
  "fedinit, models": ("fedinit", {**LR, "beta": 0.3, "aggregate": "models", **BY_EXAMPLES}, {}, []),
  "fedinit, none": ("fedinit", {**LR, "beta": 0.3, "first_round": "none"}, {}, []),
  "fedsam": ("fedsam", {**LR, "rho": 0.3, "server_learning_rate": 0.8}, {}, []),
  "mofedsam": ("mofedsam", {**LR, "rho": 0.3, "alpha": 0.4}, {}, ["m"]),
  "mofedsam, by examples": ("mofedsam", {**LR, "rho": 0.3, "alpha": 0.4, **BY_EXAMPLES}, {}, ["m"]),
  "fedspeed": ("fedspeed", {**LR, "alpha": 0.4, "rho": 0.3}, {"num_clients": N}, ["h"]),
  "fedspeed, by examples": (
    "fedspeed",
    {**LR, "alpha": 0.4, "rho": 0.3, "mix": 0.6, **BY_EXAMPLES},
    {"num_clients": N, "total_examples": TOTAL},
    ["h"],
  ),
  "fedspeed, as in the paper": (
    "fedspeed",
    {**LR, "alpha": 0.4, "rho": 0.3, "mix": 0.6, "climb": "plain", "duals": "cohort"},
    {"num_clients": N},
    [],
  ),
  "fedlion": ("fedlion", {**SMALL, "decoupled_weight_decay": 0.1}, {}, ["m"]),
  "diloco": ("diloco", {**SMALL, **ADAMW}, {}, ["b"]),
  "diloco, reset": ("diloco", {**SMALL, **ADAMW, "inner_state": "reset", **BY_EXAMPLES}, {}, ["b"]),
  "fedadamw": ("fedadamw", {**SMALL, **ADAMW}, {}, ["s_bar", "T"]),
  "fedadamw, as in the code": (
    "fedadamw",
    {**SMALL, **ADAMW, "second_moment": "full", "first_moment": "all", **BY_EXAMPLES},
    {},
    ["s_bar", "v_bar", "T"],
  ),
  "fedmuon": ("fedmuon", {**SMALL, **ADAMW, "beta": 0.8, "kappa": 0.7}, {}, ["s_bar"]),
  "fedmuon, as in the paper": (
    "fedmuon",
    {**SMALL, **ADAMW, "beta": 0.8, "nesterov": False, **BY_EXAMPLES},
    {},
    ["s_bar"],
  ),
}


run = direct_runs.run  # without TFF, which takes longer to build than to run


def expected(name, *, cohorts=harness.COHORTS, work=shared_runs.WORK, **hyperparameters):
  return ORACLES[name](harness.oracle_problem(**dict(work)), cohorts, **hyperparameters)


@pytest.mark.parametrize("case", CASES)
def test_agrees_with_the_oracle_states_included(case):
  """The first case of every algorithm runs as a TFF process, the others without."""
  name, shared, own, statistics = CASES[case]
  theirs = expected(name, **shared)
  if case == name:
    ours = shared_runs.run(name, **shared, **own)
    server = ours.states[-1].server
  else:
    ours = run(name, **shared, **own)
    server = ours.states[-1]
  harness.assert_same_models(ours.x, theirs.x)
  for letter in statistics:
    actual = harness.flatten([getattr(server, letter)])
    np.testing.assert_allclose(actual, theirs.server[letter], rtol=1e-4, atol=1e-5)
  for i, state in theirs.clients.items():
    wanted = np.concatenate([np.ravel(part) for part in tf.nest.flatten(state)])
    kept = getattr(ours.clients[i], "last", ours.clients[i])  # a transform keeps more
    np.testing.assert_allclose(harness.flatten(kept), wanted, rtol=1e-4, atol=1e-5)


def test_the_mean_step_divides_by_the_rate_of_its_own_round():
  ours = run("mofedsam", client_learning_rate=exponential(0.2, decay=0.5), rho=0.3, alpha=0.4)
  theirs = expected("mofedsam", client_learning_rate=lambda t: 0.2 * 0.5**t, rho=0.3, alpha=0.4)
  harness.assert_same_models(ours.x, theirs.x)


# Identities: each pair has the same model after every round.

PROX = {"server_learning_rate": 0.8, **LR}
ALL = {"num_clients": N, "total_examples": TOTAL}
PAIRS = {
  "fedacg(0, 0) = fedavg": (("fedacg", {**LR, "beta": 0.0, "mu": 0.0}), ("fedavg", LR)),
  "fedacg(0) = fedprox": (
    ("fedacg", {**LR, "beta": 0.0, "mu": 0.4}),
    ("fedprox", {**LR, "mu": 0.4}),
  ),
  "fedacg starts as fedprox": (
    ("fedacg", {**LR, "beta": 0.7, "mu": 0.4, "cohorts": FIRST}),
    ("fedprox", {**LR, "mu": 0.4, "cohorts": FIRST}),
  ),
  "scaffold_m(1) = scaffold": (
    ("scaffold_m", {**PROX, "alpha": 1.0, "num_clients": N}),
    ("scaffold", {**PROX, "num_clients": N}),
  ),
  "scaffold_m(1) = scaffold, by examples": (
    ("scaffold_m", {**PROX, "alpha": 1.0, **ALL, **BY_EXAMPLES}),
    ("scaffold", {**PROX, **ALL, **BY_EXAMPLES}),
  ),
  "scaffold_m alone = fedcm": (
    ("scaffold_m", {**LR, "alpha": 0.3, "num_clients": 1, "cohorts": ((3,),) * 3}),
    ("fedcm", {**LR, "alpha": 0.3, "cohorts": ((3,),) * 3}),
  ),
  "scaffold_m starts as fedavg": (
    ("scaffold_m", {**LR, "alpha": 0.3, "num_clients": N, "cohorts": FIRST}),
    ("fedavg", {"client_learning_rate": 0.03, "cohorts": FIRST}),
  ),
  "fednova, equal K = fedavg_lm": (
    ("fednova", {**PROX, "beta_l": 0.6, "work": EQUAL}),
    ("fedavg_lm", {**PROX, "beta_l": 0.6, "work": EQUAL, **BY_EXAMPLES}),
  ),
  "fednova, equal K = fedavg": (
    ("fednova", {**PROX, "beta_l": 0.0, "work": EQUAL}),
    ("fedavg", {**PROX, "work": EQUAL, **BY_EXAMPLES}),
  ),
  "fednova, equal K = fedavgm": (
    ("fednova", {**PROX, "beta_l": 0.0, "beta": 0.7, "work": EQUAL}),
    ("fedavgm", {**PROX, "beta": 0.7, "work": EQUAL, **BY_EXAMPLES}),
  ),
  "fednova, equal K = fedprox": (
    ("fednova", {**PROX, "beta_l": 0.0, "mu": 0.4, "effective_steps": "norm", "work": EQUAL}),
    ("fedprox", {**PROX, "mu": 0.4, "work": EQUAL, **BY_EXAMPLES}),
  ),
  "fedexp(∞) = fedavg": (("fedexp", {**LR, "epsilon": 1e12}), ("fedavg", LR)),
  "fedexp alone = fedavg": (
    ("fedexp", {**LR, "epsilon": 0.0, "cohorts": ((3,), (1,))}),
    ("fedavg", {**LR, "cohorts": ((3,), (1,))}),
  ),
  "fedexp of identical clients = fedavg": (
    ("fedexp", {**LR, "epsilon": 0.0, "cohorts": ((3, 3), (1, 1, 1))}),
    ("fedavg", {**LR, "cohorts": ((3, 3), (1, 1, 1))}),
  ),
  "fedinit(0) = fedavg": (("fedinit", {**LR, "beta": 0.0}), ("fedavg", LR)),
  "fedinit starts as fedavg": (
    ("fedinit", {**LR, "beta": 0.3, "cohorts": FIRST}),
    ("fedavg", {**LR, "cohorts": FIRST}),
  ),
  "fedinit, moves = models": (
    ("fedinit", {**LR, "beta": 0.3, "cohorts": EVERYONE}),
    ("fedinit", {**LR, "beta": 0.3, "aggregate": "models", "cohorts": EVERYONE}),
  ),
  "fedlion = mfl(lion)": (
    ("fedlion", {**SMALL, "beta1": 0.8, "decoupled_weight_decay": 0.1}),
    ("mfl", {**SMALL, "optimizer": "lion(0.8, 0.99, decay=0.1)"}),
  ),
  "fedsam(0) = fedavg": (("fedsam", {**LR, "rho": 0.0}), ("fedavg", LR)),
  "mofedsam(0) = fedcm": (
    ("mofedsam", {**LR, "rho": 0.0, "alpha": 0.3}),
    ("fedcm", {**LR, "alpha": 0.3}),
  ),
  "mofedsam(1) = fedsam": (
    ("mofedsam", {**LR, "rho": 0.3, "alpha": 1.0}),
    ("fedsam", {**LR, "rho": 0.3}),
  ),
  "mofedsam starts as fedsam": (
    ("mofedsam", {**LR, "rho": 0.3, "alpha": 0.3, "cohorts": FIRST}),
    ("fedsam", {"client_learning_rate": 0.03, "rho": 0.3, "cohorts": FIRST}),
  ),
  "fedspeed(0) = feddyn": (
    ("fedspeed", {**LR, "rho": 0.0, "alpha": 0.4, "num_clients": N}),
    ("feddyn", {**LR, "alpha": 0.4, "num_clients": N}),
  ),
  "fedspeed(0) = feddyn, by examples": (
    ("fedspeed", {**LR, "rho": 0.0, "alpha": 0.4, **ALL, **BY_EXAMPLES}),
    ("feddyn", {**LR, "alpha": 0.4, **ALL, **BY_EXAMPLES}),
  ),
  "fedspeed(mix=0) = feddyn": (
    ("fedspeed", {**LR, "rho": 0.3, "mix": 0.0, "alpha": 0.4, "num_clients": N}),
    ("feddyn", {**LR, "alpha": 0.4, "num_clients": N}),
  ),
  "fedspeed, everyone = cohort": (
    ("fedspeed", {**LR, "rho": 0.3, "num_clients": 4, "cohorts": EVERYONE}),
    ("fedspeed", {**LR, "rho": 0.3, "num_clients": 4, "duals": "cohort", "cohorts": EVERYONE}),
  ),
  "fedspeed starts as fedprox": (
    ("fedspeed", {**LR, "rho": 0.0, "num_clients": N, "duals": "cohort", "cohorts": FIRST}),
    ("fedprox", {**LR, "mu": 0.1, "server_learning_rate": 2.0, "cohorts": FIRST}),
  ),
  "diloco(sgd) = fednag": (
    ("diloco", {**LR, "inner": "sgd", "server_learning_rate": 0.7, "beta": 0.6}),
    ("fednag", {**LR, "server_learning_rate": 0.7 / 0.4, "beta": 0.6}),
  ),
  "diloco(sgd, 1, 0) = fedavg": (
    ("diloco", {**LR, "inner": "sgd", "server_learning_rate": 1.0, "beta": 0.0}),
    ("fedavg", LR),
  ),
  "fedadamw starts as diloco": (
    ("fedadamw", {**SMALL, **ADAMW, "cohorts": FIRST}),
    ("diloco", {**SMALL, **ADAMW, "server_learning_rate": 1.0, "beta": 0.0, "cohorts": FIRST}),
  ),
  "fedadamw alone = diloco": (
    (
      "fedadamw",
      {**SMALL, **ADAMW, "beta1": 0.0, "gamma": 0.0, "second_moment": "full", "cohorts": ((3,),) * 3},
    ),
    (
      "diloco",
      {**SMALL, **ADAMW, "beta1": 0.0, "server_learning_rate": 1.0, "beta": 0.0,
       "cohorts": ((3,),) * 3},
    ),
  ),
}  # fmt: skip


@pytest.mark.parametrize("pair", PAIRS)
def test_two_algorithms_coincide(pair):
  (left, ours), (right, theirs) = PAIRS[pair]
  harness.assert_same_models(run(left, **ours).x, run(right, **theirs).x, 5e-6)


def test_fedacg_sends_the_model_of_fednag():
  ours = run("fedacg", **LR, beta=0.7, mu=0.0)
  message = algorithms.fedacg(**LR, beta=0.7, mu=0.0).exchanges[0].message
  sent = [harness.flatten(message(state, t + 1)) for t, state in enumerate(ours.states)]
  nag = run("fednag", **LR, server_learning_rate=1 / 0.3, beta=0.7)
  harness.assert_same_models(sent, nag.x, 5e-6)


def test_scaffold_ms_c_is_the_mean_of_all_c_i_after_every_round():
  cohorts = tuple(map(tuple, harness.COHORTS))
  for rounds in range(1, len(cohorts) + 1):
    ours = run("scaffold_m", **CASES["scaffold_m"][1], num_clients=N, cohorts=cohorts[:rounds])
    mean = sum(harness.flatten(c_i) for c_i in ours.clients.values()) / N
    np.testing.assert_allclose(harness.flatten(ours.states[-1].c), mean, atol=1e-6)


def test_fedlion_without_the_sign_is_mfl(monkeypatch):
  plain = run("mfl", **LR, optimizer="sgdm(0.8, dampened=True)")
  monkeypatch.setattr(tf, "sign", tf.identity)
  ours = direct_runs.run_algorithm(algorithms.fedlion(**LR, beta1=0.8, beta2=0.8))
  harness.assert_same_models(ours.x, plain.x, 5e-6)


def test_fedlion_moves_by_whole_steps_and_alone_is_centralised_lion():
  ours = run("fedlion", **SMALL, cohorts=((3,),) * 3)
  start = harness.flatten(harness.initial_weights())
  steps = (start - ours.x[0]) / 0.02
  np.testing.assert_allclose(steps, np.round(steps), atol=1e-4)
  problem = harness.oracle_problem(**dict(shared_runs.WORK))
  twice = problem._replace(epochs=problem.epochs * 3)  # three rounds of K steps are one of 3K
  harness.assert_same_models(ours.x[-1:], ORACLES["fedlion"](twice, [[3]], **SMALL).x)


def vectors_model():
  """Softmax regression whose weights are one vector."""
  plain = harness.softmax_model()
  shapes = [w.shape for w in plain.initial_weights]

  def unpacked(weights):
    return tuple(tf.reshape(w, shape) for w, shape in zip(weights, shapes, strict=True))

  def value_and_grad(weights, batch, seed):
    tally, gradient = plain.value_and_grad(unpacked(weights), batch, seed)
    return tally, tuple(tf.reshape(g, [-1]) for g in gradient)

  return dataclasses.replace(
    plain,
    initial_weights=tuple(w.ravel() for w in plain.initial_weights),
    value_and_grad=value_and_grad,
    evaluate=lambda weights, batch: plain.evaluate(unpacked(weights), batch),
  )


def test_fedmuon_on_vectors_is_diloco_that_resets():
  ours = run("fedmuon", **SMALL, **ADAMW, gamma=0.0, model=vectors_model)
  outer = {"server_learning_rate": 1.0, "beta": 0.0, "inner_state": "reset"}
  reset = run("diloco", **SMALL, **ADAMW, **outer, model=vectors_model)
  harness.assert_same_models(ours.x, reset.x, 5e-6)
  assert ours.states[-1].M == ()


@pytest.mark.parametrize("shape", [(3, 5), (5, 3), (2, 3, 4)])
def test_orthogonalising_commutes_with_transposing(shape):
  u = np.random.default_rng(0).normal(size=shape).astype(np.float32)
  ours = np.asarray(adaptive_steps.orthogonalised(tf.constant(u))).reshape(-1, shape[-1])
  flat = u.reshape(-1, shape[-1])
  np.testing.assert_allclose(ours, np.asarray(adaptive_steps.orthogonalised(tf.constant(flat.T))).T,
                             atol=1e-5)  # fmt: skip
  assert np.abs(np.linalg.svd(ours)[1] - 1).max() < 0.4
  kernels = {(2, 8): 2.0, (8, 2): 1.0, (3, 3, 2, 8): 1.0}
  assert {k: adaptive_steps.muon_scale(tf.TensorShape(k)) for k in kernels} == kernels


# Bytes: (down, up, client state) in models of 4·parameters, and further numbers of 4 bytes.
TENSORS, MATRIX = 2, 784 / 785  # of the linear 784-10 model; the bias is the rest
BYTES = {
  "fedacg": ((1, 0), (1, 0)),
  "fedsam": ((1, 0), (1, 0)),
  "fednova": ((1, 0), (1, 1)),
  "fedexp": ((1, 0), (1, 1)),
  "fedinit": ((1, 0), (1, 0)),
  "fedspeed": ((1, 0), (1, 0)),
  "diloco": ((1, 0), (1, 0)),
  "mofedsam": ((2, 0), (1, 1)),
  "scaffold_m": ((2, 0), (2, 0)),
  "fedlion": ((2, 0), (2, 0)),
  "fedadamw": ((2, TENSORS + 1), (1, TENSORS + 1)),
  "fedadamw(full)": ((3, 1), (2, 1)),
  "fedmuon": ((2 + MATRIX, 0), (1 + MATRIX, 1)),
}
KEPT = {"fedinit": 1, "fedspeed": 1, "scaffold_m": 1, "diloco": 2}
FACTS = {"client_learning_rate": 0.1, "num_clients": 10}


@pytest.mark.parametrize("case", BYTES)
def test_bytes_and_client_states_are_as_documented(case):
  name = case.partition("(")[0]
  known = describe.registry.ALGORITHMS[name].hyperparameters
  facts = {key: value for key, value in FACTS.items() if key in known}
  full = {"second_moment": "full"} if "full" in case else {}
  process = build_process(algorithms.builder(name)(**facts, **full), describe.linear_model())
  one = 4 * process.model.num_parameters
  for found, (models, numbers) in zip(
    (process.bytes_down(1), process.bytes_up(1)), BYTES[case], strict=True
  ):
    assert found == pytest.approx(models * one + 4 * numbers)
  kept = sum(
    np.asarray(leaf).nbytes for leaf in tf.nest.flatten(process.initial_client_state([1, 2]))
  )
  text = describe.describe(name, {**facts, **full}, describe.linear_model(), "a model")
  for label, (models, numbers) in zip(("download", "upload"), BYTES[case], strict=True):
    assert f"  {label:8}  {round(models * one + 4 * numbers):,} bytes, " in text
  assert kept - KEPT.get(case, 0) * one == (4 if name == "diloco" else 0)
  for stateless in ({"inner_state": "reset"}, {"inner": "sgd"}) if name == "diloco" else ():
    algorithm = algorithms.diloco(client_learning_rate=0.1, **stateless)
    assert algorithm.init_client((tf.zeros([2]),), tf.zeros([2], tf.int32)) == ()


BAD = [
  ("fednova", {"mu": 0.1}, "mu must be 0 with local momentum"),
  ("fednova", {"beta_l": 1.0}, "beta_l must be"),
  ("fedspeed", {"num_clients": 5, "duals": "cohort", "total_examples": 9, **BY_EXAMPLES},
   "client_weighting must be uniform with duals='cohort'"),
  ("scaffold_m", {"num_clients": 5, "alpha": 0.0}, "alpha must be"),
  ("fedadamw", {"second_moment": "block"}, "second_moment must be"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "hyperparameters", "message"), BAD, ids=str)
def test_a_bad_hyperparameter_is_refused(name, hyperparameters, message):
  with pytest.raises(ValueError, match=message):
    algorithms.builder(name)(**LR, **hyperparameters)
