"""Client drift on quadratics: FedAvg stalls away from the optimum, and SCAFFOLD reaches it."""

import pytest

from tasks import quadratic
from tff_momentum import algorithms
from tff_momentum.processes.process import build_process
from tff_momentum.simulation.loop import run


def distances(algorithm, local_steps, rounds=150):
  task = quadratic.load(
    seed=3,
    num_clients=10,
    dimension=5,
    mu=0.2,
    hessian_dissimilarity=0.15,
    examples_per_client=local_steps,
  )
  process = build_process(algorithm, task.model)
  result = run(
    process,
    task,
    total_rounds=rounds,
    clients_per_round=10,
    client_batch_size=1,
    rounds_per_eval=50,
  )
  return [row["eval/distance"] for row in result.history if "eval/distance" in row]


@pytest.mark.parametrize("option", ["I", "II"])
def test_scaffold_reaches_the_optimum(option):
  algorithm = algorithms.builder("scaffold")(
    client_learning_rate=0.2, num_clients=10, option=option
  )
  assert distances(algorithm, local_steps=10)[-1] < 1e-4


def test_fedavg_stalls_with_several_local_steps_and_not_with_one():
  fedavg = algorithms.builder("fedavg")(client_learning_rate=0.2)
  several = distances(fedavg, local_steps=10)
  assert several[-1] > 0.02
  assert several[-1] == pytest.approx(several[-2], rel=1e-3)  # converged, but not to the optimum
  faster = algorithms.builder("fedavg")(client_learning_rate=0.9)
  assert distances(faster, local_steps=1)[-1] < 1e-4
