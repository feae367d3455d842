"""The measures against the oracle on the ragged problem, and against closed forms on quadratics."""

import functools

import numpy as np
import pytest

from tasks import quadratic
from tests.helpers import harness
from tests.oracle import diagnostics as oracle
from tff_momentum import algorithms
from tff_momentum.client import LocalWork
from tff_momentum.diagnostics.cosine import CosineDistance
from tff_momentum.diagnostics.dissimilarity import Dissimilarity
from tff_momentum.diagnostics.drift import ClientDrift
from tff_momentum.diagnostics.gradient import FullGradient
from tff_momentum.processes.process import ClientInput, build_process
from tff_momentum.registry import ALGORITHMS

RATE, DECAY = 0.3, 0.02
COHORT = (0, 1, 3, 4)  # 7, 4, 12 and no examples in batches of 3
PRESENT = (0, 1, 3)


def first_states(process, cohort=COHORT):
  return {i: process.initial_client_state(harness.client_seed(0, i)) for i in cohort}


def clients(states, cohort=COHORT):
  """The cohort, opened anew each time."""
  return lambda: [
    ClientInput(seed=harness.client_seed(1, i), state=states[i], data=harness.client_dataset(i))
    for i in cohort
  ]


# name -> the algorithm, and its local step in the oracle's terms, from zero states and statistics.
def sgd(i, carry, g):
  return (carry[0] - RATE * g(carry[0]),)


def sgd_with_momentum(i, carry, g):
  v = 0.9 * carry[1] + g(carry[0])
  return carry[0] - RATE * v, v


def halved(i, carry, g):  # fedcm with α = 0.5 and no momentum yet
  return (carry[0] - RATE * 0.5 * g(carry[0]),)


CASES = {
  "fedavg": ({}, sgd, 1),
  "fedavg_lm": ({"beta_l": 0.9}, sgd_with_momentum, 2),
  "fedcm": ({"alpha": 0.5}, halved, 1),
}


@functools.cache
def compiled(name, **work):
  own, _, _ = CASES[name]
  algorithm = algorithms.builder(name)(client_learning_rate=RATE, **own)
  return build_process(
    algorithm, harness.softmax_model(), work=LocalWork(weight_decay=DECAY, **work)
  )


@pytest.mark.parametrize(
  ("name", "full"),
  [("fedavg", False), ("fedavg", True), ("fedavg_lm", False), ("fedcm", True)],
)
def test_drift_and_alpha_agree_with_the_oracle(name, full):
  process = compiled(name, epochs=2)
  measured = ClientDrift(process, gradients="full" if full else "batch")(
    process.initialize(), clients(first_states(process))()
  )
  _, step, parts = CASES[name]
  problem = harness.oracle_problem(epochs=2, weight_decay=DECAY)

  def start(i):
    return (problem.x0, *[np.zeros_like(problem.x0)] * (parts - 1))

  assert measured.drift == pytest.approx(
    oracle.drift(problem, PRESENT, start, step, full), rel=1e-4
  )
  assert (measured.alpha, measured.alpha_per_client) == pytest.approx(
    oracle.alpha(problem, PRESENT, start, step, full), rel=1e-3
  )


def test_the_steps_are_the_algorithms_own():
  """The mean of the last models of the clients is the model after the round."""
  process = compiled("fedavg", steps=5)
  state = process.initialize()
  cohort = clients(first_states(process))
  result = ClientDrift(process)(state, cohort())
  after = process.next(state, cohort()).state
  mean = np.mean([harness.flatten(y) for y in result.models], axis=0)
  np.testing.assert_allclose(mean, harness.flatten(process.weights(after)), rtol=1e-6, atol=1e-7)


def test_cosine_distance_agrees_with_all_pairs():
  process = compiled("fedavg", epochs=2)
  problem = harness.oracle_problem(epochs=2, weight_decay=DECAY)
  paths = oracle.trajectories(problem, PRESENT, lambda i: (problem.x0,), sgd)
  expected = oracle.cosine_distance([path[-1][0] for path in paths.values()])
  cosine = CosineDistance(process)
  cohort = clients(first_states(process))
  assert cosine(process.initialize(), cohort()) == pytest.approx(expected, rel=1e-4)
  result = ClientDrift(process, alpha=False)(process.initialize(), cohort())
  assert cosine.between(result.models) == pytest.approx(expected, rel=1e-4)
  assert cosine.between(result.models[:1]) == 0


def test_gradient_and_dissimilarity_agree_with_the_oracle():
  process = compiled("fedavg")
  problem = harness.oracle_problem(weight_decay=DECAY)
  cohort = clients(first_states(process))
  expected = oracle.dissimilarity(problem, PRESENT, problem.x0)
  measured = Dissimilarity(process, iterations=16)(process.initialize(), cohort())
  assert measured == pytest.approx(expected, rel=1e-3)
  mean = np.mean([oracle.full_gradient(problem, i, problem.x0) for i in PRESENT], axis=0)
  found = FullGradient(process)(process.initialize(), cohort())
  assert found == pytest.approx({"gradient_norm": np.linalg.norm(mean)}, rel=1e-5)


# Closed forms.


def quadratic_process(name="fedavg", local_steps=4, clients_drawn=6, **options):
  task = quadratic.load(
    seed=3, num_clients=6, dimension=5, mu=0.2, examples_per_client=local_steps, **options
  )
  wanted = {"client_learning_rate": 0.2, "num_clients": 6, "participation": 1.0}
  process = build_process(build(name, wanted), task.model)

  def cohort():
    return [
      ClientInput(
        seed=np.array([1, i], np.int32),
        state=process.initial_client_state(np.array([2, i], np.int32)),
        data=task.dataset(str(i), np.array([3, i], np.int32), 1),
      )
      for i in range(clients_drawn)
    ]

  return task, process, cohort


def build(name, wanted):
  known = ALGORITHMS[name].hyperparameters
  return algorithms.builder(name)(**{key: value for key, value in wanted.items() if key in known})


def test_drift_on_quadratics_has_its_closed_form():
  """d_i^k = (1−ηa_i)^k (d⁰ + b_i/a_i) − b_i/a_i, coordinate by coordinate; the shadow has a, and b = 0."""
  task, process, cohort = quadratic_process()
  problem = quadratic.Problem(
    seed=3,
    num_clients=6,
    dimension=5,
    mu=0.2,
    smoothness=1.0,
    gradient_dissimilarity=1.0,
    hessian_dissimilarity=0.1,
    noise=0.0,
    examples_per_client=4,
  )
  d0 = -np.array(task.details["optimum"])
  total = 0.0
  for i in range(6):
    a, b = problem.client(i)
    for k in range(4):
      own = (1 - 0.2 * a) ** k * (d0 + b / a) - b / a
      shadow = (1 - 0.2 * problem.curvature) ** k * d0
      total += np.sum((own - shadow) ** 2) / (6 * 4)
  measured = ClientDrift(process)(process.initialize(), cohort())
  assert measured.drift == pytest.approx(total, rel=1e-4)
  assert measured.drift > 0.05


@pytest.mark.parametrize("name", ["ghbm", "mime", "fedavg_lm"])
def test_no_drift_in_one_step_nor_among_identical_clients(name):
  _, process, cohort = quadratic_process(name, local_steps=1)
  measured = ClientDrift(process)(process.initialize(), cohort())
  assert measured.drift == 0
  assert measured.alpha is None
  _, process, cohort = quadratic_process(
    name, gradient_dissimilarity=0.0, hessian_dissimilarity=0.0
  )
  assert ClientDrift(process)(process.initialize(), cohort()).drift == pytest.approx(0, abs=1e-10)


def test_alpha_is_zero_where_all_clients_have_one_hessian():
  _, process, cohort = quadratic_process("fedadc", hessian_dissimilarity=0.0)
  assert ClientDrift(process)(process.initialize(), cohort()).alpha == pytest.approx(0, abs=1e-4)
  _, process, cohort = quadratic_process("fedadc")
  assert ClientDrift(process)(process.initialize(), cohort()).alpha > 1e-3


def test_dissimilarity_on_quadratics_is_what_the_task_was_made_with():
  task, process, cohort = quadratic_process(gradient_dissimilarity=0.7, hessian_dissimilarity=0.15)
  measure, state = Dissimilarity(process), process.initialize()
  optimum = np.array(task.details["optimum"], np.float32)
  at_optimum = measure(state._replace(server=(optimum,)), cohort())
  assert at_optimum["G"] == pytest.approx(0.7, abs=1e-4)
  assert at_optimum["delta"] == pytest.approx(0.15, abs=1e-4)
  _, process, cohort = quadratic_process(hessian_dissimilarity=0.0)
  d = -np.array(task.details["optimum"])  # ∇f = a d, and ∇f_i = a d ± G u_i
  gradient = np.geomspace(0.2, 1.0, 5) * d
  measured = Dissimilarity(process)(process.initialize(), cohort())
  assert measured["G"] == pytest.approx(1.0, abs=1e-4)
  assert measured["B"] == pytest.approx(np.sqrt(1 + 1 / np.sum(gradient**2)), abs=1e-4)
  assert measured["delta"] == pytest.approx(0, abs=1e-4)


def test_an_algorithm_without_local_steps_is_refused():
  _, process, _ = quadratic_process("fedsgd")
  with pytest.raises(ValueError, match="the clients of this algorithm take none"):
    ClientDrift(process)
