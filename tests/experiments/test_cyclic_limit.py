"""FedAvgM under cyclic participation ends in the periodic orbit that linear algebra predicts."""

import csv

import numpy as np
import pytest

from tasks.quadratic import Problem
from tests.helpers import forked_runs
from tff_momentum.simulation import seeds

CLIENTS, BETA, RATE, SERVER_RATE = 4, 0.5, 0.2, 0.5
SETTING = {"num_clients": CLIENTS, "mu": 0.5, "smoothness": 1.0, "gradient_dissimilarity": 3.0}


def limit_cycle() -> tuple[Problem, list[np.ndarray]]:
  """The models of one cycle in the limit, from the fixed point of the cycle's affine map.

  Every coordinate is on its own, with d = x − x* and the momentum m:
      m ← βm + η_l(a_i d + b_i);   d ← d − η m
  """
  problem = Problem(
    seed=7, dimension=20, hessian_dissimilarity=0.1, noise=0.0, examples_per_client=10, **SETTING
  )
  order = seeds.generator(7, seeds.COHORT).permutation(CLIENTS)
  cycle = []
  for coordinate in range(20):
    maps = []
    for number in order:
      diagonal, linear = (part[coordinate] for part in problem.client(number))
      momentum = np.array([[RATE * diagonal, BETA, RATE * linear]])  # in terms of (d, m, 1)
      distance = np.array([[1.0, 0.0, 0.0]]) - SERVER_RATE * momentum
      maps.append(np.concatenate([distance, momentum, [[0.0, 0.0, 1.0]]]))
    once = np.linalg.multi_dot(maps[::-1])
    at = np.append(np.linalg.solve(np.eye(2) - once[:2, :2], once[:2, 2]), 1.0)
    orbit = []
    for step in maps:
      at = step @ at
      orbit.append(at[0])
    cycle.append(orbit)
  return problem, list(np.array(cycle).T + problem.optimum)


def test_the_loss_of_fedavgm_is_that_of_the_limit_cycle(tmp_path):
  problem, cycle = limit_cycle()
  forked_runs.run(
    "--task=quadratic", *(f"--task_set={name}={value}" for name, value in SETTING.items()),
    "--algo=fedavgm", f"--client_learning_rate={RATE}", f"--server_learning_rate={SERVER_RATE}",
    f"--set=beta={BETA}", "--clients_per_round=1", "--participation=cyclic", "--client_steps_per_round=1",
    "--total_rounds=402", "--rounds_per_eval=1", "--seed=7", f"--root_output_dir={tmp_path}",
    "--experiment_name=cyclic",
  )  # fmt: skip
  with (tmp_path / "cyclic" / "metrics.csv").open() as table:
    losses = [float(row["eval/loss"]) for row in csv.DictReader(table)]
  # Round t (from 1) trains client (t − 1) mod 4 of the order; the last round is 402.
  expected = [problem.value(cycle[(t - 1) % CLIENTS]) for t in range(399, 403)]
  assert losses[-4:] == pytest.approx(expected, rel=1e-3)
  assert min(expected) > 0.01  # heterogeneity remains
