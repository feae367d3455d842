"""The benchmark: competitors do the same work, and a single run writes its result."""

import json
import subprocess
import sys

import numpy as np
import pytest

from experiments import benchmark
from experiments.benchmarks import expected_cost, work_items
from tests import ROOT


@pytest.mark.parametrize(
  ("item", "parameters"), [("A", 870_334), ("B", 48_670), ("C", 164_394), ("D", 713_076)]
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
