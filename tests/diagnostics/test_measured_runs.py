"""Diagnostics in a run: what the rows get, that the run stays as it was, and the momentum's scale."""

import collections
import functools
import types

import numpy as np
import pytest
import tensorflow as tf

from tasks import quadratic
from tests.helpers.contract_problem import as_arrays
from tff_momentum import algorithms
from tff_momentum.client import LocalWork
from tff_momentum.diagnostics import layer_updates
from tff_momentum.diagnostics.gradient import FullGradient
from tff_momentum.diagnostics.measure import Measure
from tff_momentum.models.model import Model, Tally
from tff_momentum.processes.process import ClientInput, build_process
from tff_momentum.registry import ALGORITHMS
from tff_momentum.simulation import loop
from tff_momentum.simulation.client_store import MemoryStore

EVERYTHING = ("drift", "cosine", "alpha", "gradient", "variance", "layers", "dissimilarity")
TOLD = {"client_learning_rate": 0.1, "num_clients": 12, "participation": 0.25, "tau": 2}


def build(name, **told):
  known = ALGORITHMS[name].hyperparameters
  return algorithms.builder(name)(**{key: value for key, value in told.items() if key in known})


@functools.cache
def problem(name="scaffold"):
  task = quadratic.load(seed=5, num_clients=12, dimension=4, noise=0.5, examples_per_client=6)
  return task, build_process(build(name, **TOLD), task.model)


def run(name, rounds, measure=None, start=None):
  task, process = problem(name)
  store = MemoryStore(loop.client_initializer(process, 7)) if start is None else start[1]
  last = loop.run(
    process,
    task,
    total_rounds=rounds,
    clients_per_round=3,
    client_batch_size=2,
    seed=7,
    measure=measure,
    store=store,
    state=None if start is None else start[0],
  )
  return last, store


@functools.cache
def everything(name="scaffold"):
  task, process = problem(name)
  return Measure(process, task.clients, EVERYTHING, period=2, seed=7, sample=5)


def measured(history):
  return [{k: v for k, v in row.items() if k.startswith("diagnostics/")} for row in history]


def test_a_measured_run_has_the_same_bits_and_can_be_resumed():
  plain, _ = run("scaffold", 6)
  watched, _ = run("scaffold", 6, everything())
  tf.nest.map_structure(
    np.testing.assert_array_equal, as_arrays(plain.state), as_arrays(watched.state)
  )
  rows = measured(watched.history)
  assert [set(row) for row in rows] == [set(), set(everything().columns)] * 3
  assert all(np.isfinite(value) for row in rows for value in row.values())
  for before, after in zip(plain.history, watched.history, strict=True):
    assert {
      k: v for k, v in before.items() if not k.startswith("seconds/")
    }.items() <= after.items()
  half, store = run("scaffold", 3, everything())
  rest, _ = run("scaffold", 6, everything(), start=(half.state, store))
  assert measured(half.history) + measured(rest.history) == rows


def test_everyone_in_every_cohort_has_no_variance_and_others_have_that_of_sampling():
  """One step on all of a client's data: Δ = η mean g_i, with variance η² (1/S − 1/N) s² in all."""
  task, process = problem("fedavg")
  state = process.initialize()
  gradients = []
  for i in range(12):
    a, b = quadratic.Problem(
      seed=5, num_clients=12, dimension=4, mu=0.1, smoothness=1.0, gradient_dissimilarity=1.0,
      hessian_dissimilarity=0.1, noise=0.5, examples_per_client=6,
    ).client(i)  # fmt: skip
    gradients.append(-a * np.array(task.details["optimum"]) + b)
  expected = 0.1**2 * (1 / 3 - 1 / 12) * np.sum(np.var(gradients, axis=0, ddof=1))

  def inputs(ids):
    return [
      ClientInput(seed=np.zeros(2, np.int32), state=(), data=task.dataset(i, np.array([1, 2]), 6))
      for i in ids
    ]

  def variance(cohort, cohorts):
    after = process.next(state, inputs(cohort)).state
    visit = loop.TrainedRound(0, cohort, state, after, inputs)
    measure = Measure(process, task.clients, ["variance"], period=1, cohorts=cohorts)
    return measure(visit)["diagnostics/variance"]

  assert variance([str(i) for i in range(12)], 1) == pytest.approx(0, abs=1e-12)
  assert variance(["0", "1", "2"], 150) == pytest.approx(expected, rel=0.2)


def constant_gradient_model():
  """f(x) = c·x for everyone: all gradients are c."""
  c = np.array([0.5, -1.0, 2.0], np.float32)

  def tally(batch):
    n = tf.cast(tf.shape(batch[0])[0], tf.float32)
    return Tally(n, n, ())

  return Model(
    initial_weights=(np.zeros(3, np.float32),),
    batch_spec=(tf.TensorSpec([None, 1], tf.float32), tf.TensorSpec([None], tf.float32)),
    value_and_grad=lambda weights, batch, seed: (tally(batch), (tf.constant(c) + 0 * weights[0],)),
    evaluate=lambda weights, batch: tally(batch),
    empty_tally=lambda: Tally(tf.zeros([]), tf.zeros([]), ()),
    finalize_metrics=lambda sums: collections.OrderedDict(),
  )


@pytest.mark.parametrize("name", ["ghbm", "fedavgm", "fedavg_glm", "fedadc", "mime", "fedglomo"])
def test_momentum_settles_to_a_constant_gradient(name):
  check_momentum(name)


@pytest.mark.slow
@pytest.mark.parametrize("name", sorted(set(ALGORITHMS) - {"fedmax"}))
def test_every_momentum_settles_to_a_constant_gradient(name):
  check_momentum(name, rounds=800)  # fedasgd's β is above 0.98


def check_momentum(name, rounds=60):
  told = {**TOLD, "num_clients": 1}  # the only client takes part in every round and keeps its state
  algorithm = build(name, **told, beta=0.5, beta_l=0.5, bits=32, total_examples=10)
  if algorithm.momentum is None:
    pytest.skip("no momentum at the server")
  process = build_process(algorithm, constant_gradient_model(), work=LocalWork(epochs=2))
  state = process.initialize()
  now = {"staleness": np.int32(0)} if process.takes_staleness else {}

  own = process.initial_client_state(np.array([1, 1], np.int32))

  def clients():
    data = (np.zeros((5, 1), np.float32), np.zeros(5, np.float32))
    return [
      ClientInput(
        seed=np.array([1, 1], np.int32),
        state=own,
        data=tf.data.Dataset.from_tensor_slices(data).batch(2),
        **now,
      )
    ]

  for _ in range(rounds):
    output = process.next(state, clients())
    state, own = output.state, output.clients[0]
  found = FullGradient(process)(state, clients())
  assert found["momentum_cosine"] == pytest.approx(1, abs=1e-3)
  assert found["momentum_error"] < 0.02 * found["gradient_norm"]


def test_names_of_layers_do_not_depend_on_what_was_built_before():
  def model():
    return tf.keras.Sequential(
      [tf.keras.layers.Dense(3, input_shape=(2,)), tf.keras.layers.Dense(1, use_bias=False)]
    )

  stand_in = types.SimpleNamespace(keras=model, initial_weights=())
  names = layer_updates.layer_names(stand_in)
  assert names == ["dense/kernel", "dense/bias", "dense/kernel_1"]
  assert layer_updates.layer_names(stand_in) == names


@pytest.mark.slow
@pytest.mark.parametrize(
  "name", sorted(set(ALGORITHMS) - {"fedmax"})
)  # which needs a penultimate layer
def test_every_algorithm_can_be_measured(name):
  """All measures that are defined for it; an algorithm without common local steps says so."""
  task = quadratic.load(seed=5, num_clients=12, dimension=4, noise=0.5, examples_per_client=6)
  algorithm = build(name, **TOLD, total_examples=72)
  process = build_process(algorithm, task.model)
  names = list(EVERYTHING)
  if name == "fedsgd" or process.takes_staleness:
    with pytest.raises(ValueError, match="leave them out of --diagnostics"):
      Measure(process, task.clients, ["drift"])
    names = ["gradient", "variance", "layers", "dissimilarity"]
  measure = Measure(process, task.clients, names, period=2, seed=7, sample=5)
  last = loop.run(
    process, task, total_rounds=4, clients_per_round=3, client_batch_size=2, measure=measure
  )
  rows = [row for row in measured(last.history) if row]
  assert [set(row) for row in rows] == [set(measure.columns)] * 2
  assert all(np.isfinite(value) for row in rows for value in row.values())
