"""The benchmark: competitors do the same work, and a single run writes its result."""

import json
import subprocess
import sys

import numpy as np
import pytest

from experiments import benchmark
from experiments.benchmarks import competitors, expected_cost, limit, work_items
from tests import ROOT


@pytest.mark.parametrize(
  ("item", "parameters"),
  [("A", 870_334), ("B", 48_670), ("C", 164_394), ("D", 713_076), ("F", 1_204_682)],
)
def test_the_models_have_the_expected_sizes(item, parameters):
  layers = work_items.initial_weights(work_items.ITEMS[item]).values()
  assert sum(weight.size for layer in layers for weight in layer) == parameters


def test_a_client_always_has_the_same_examples():
  x, y = work_items.examples(work_items.ITEMS["C"], 3)
  again, _ = work_items.examples(work_items.ITEMS["C"], 3)
  np.testing.assert_array_equal(x, again)
  np.testing.assert_array_equal(x[:, 1:], y[:, :-1])


def test_wrong_names_are_refused():
  with pytest.raises(SystemExit):
    benchmark.parse(["--items=A,Z"])
  with pytest.raises(SystemExit):
    benchmark.parse(["--item=A"])


def test_expected_factors_count_gradients_and_passes_over_the_weights():
  item, gradients_alone = work_items.ITEMS["B"], {"gradient": 1.0, "pass": 0.0}
  assert expected_cost.factor("mime", item, gradients_alone) == 3
  assert expected_cost.factor("scaffold", item, gradients_alone) == 1
  # Five steps of a gradient and three passes, and 14 passes more; fedavg: two, and 4 more.
  costs = {"gradient": 4.0, "pass": 1.0}
  assert expected_cost.factor("scaffold", item, costs) == (5 * (4 + 3) + 14) / (5 * (4 + 2) + 4)
  assert expected_cost.factor("something_new", item, costs) is None


def test_the_table_shows_medians_of_ratios_within_a_turn():
  turns = [
    [{"wall": 1.0, "cpu": 1.0}, {"wall": 0.5, "cpu": 0.9}],
    [{"wall": 9.0, "cpu": 1.0}, {"wall": 4.5, "cpu": 0.9}],
  ]
  states = [{"check": 1.5, "peak_mb": 600.0, "cold": 9.0}] * 2
  text = benchmark.table("B", ["loop", "inprocess"], turns, states)
  assert text.splitlines()[2].split()[:3] == ["inprocess", "2.500", "0.50"]


def test_the_table_shows_the_ratio_to_the_limit():
  turns = [[{"wall": 0.5, "cpu": 0.9}, {"wall": 0.25, "cpu": 0.5}]]
  states = [{"check": 1.5, "peak_mb": 600.0, "cold": 9.0}] * 2
  text = benchmark.table("B", ["run:inprocess", "limit"], turns, states)
  assert text.splitlines()[1].split()[:4] == ["run:inprocess", "0.500", "1.00", "2.00"]


def test_the_trainer_and_the_limit_have_a_line_for_each_algorithm():
  names = benchmark.competitor_names(benchmark.parse(["--through=run", "--limit"]))
  assert names == ["inprocess", "run:inprocess", "limit"]
  names = benchmark.competitor_names(benchmark.parse(["--algos=mime", "--limit"]))
  assert names == ["inprocess/fedavg", "inprocess/mime", "limit/fedavg", "limit/mime"]


def test_the_limit_counts_multiplications_and_additions():
  item = work_items.ITEMS["B"]
  both_ways, steps = 3 * 784 * 62, 5
  examples = 2 * item.clients * item.examples * both_ways
  # y − η g: two operations for each weight and step.
  weights = 2 * item.clients * steps * (784 * 62 + 62)
  assert limit.operations(item) == pytest.approx(examples + weights, rel=0.01)


@pytest.mark.slow
def test_the_trainer_moves_the_weights_as_far_as_the_process():
  """Only the order of the examples differs."""
  item = work_items.ITEMS["B"]
  bare, through = (competitors.build(name, item) for name in ("inprocess", "run:inprocess"))
  for each in (bare, through):
    each.round()
  distances = [work_items.distance(each.weights(), each.initial) for each in (bare, through)]
  assert distances[0] == pytest.approx(distances[1], rel=0.02)


@pytest.mark.slow
def test_a_single_run_agrees_with_other_libraries(tmp_path):
  """Seven rounds of B move the weights by 1.8439, as measured with other libraries."""
  result = tmp_path / "result.json"
  command = [sys.executable, "experiments/benchmark.py", "--item=B", f"--json={result}"]
  subprocess.run([*command, "--rounds=7"], cwd=ROOT, check=True, timeout=300)
  found = json.loads(result.read_text())
  assert found["check"] == pytest.approx(CHECK_AFTER_SEVEN_ROUNDS, rel=1e-4)
  assert len(found["rounds_s"]) == 7


CHECK_AFTER_SEVEN_ROUNDS = 1.8439
