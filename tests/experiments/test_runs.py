"""Run folders: final value, metric, divergence, columns, and the reader of metrics.csv."""

import math

import numpy as np
import pytest

from experiments.runs import columns, final_value, metric, reader, summary
from experiments.runs.divergence import has_diverged
from experiments.sweeps import outcomes
from tests.helpers.report_runs import write_run


def table(values, column="eval/accuracy"):
  """A metrics.csv as it is read: None was not measured."""
  found = [math.nan if value is None else value for value in values]
  return {"round": np.arange(1.0, len(found) + 1), column: np.array(found)}


@pytest.mark.parametrize(
  ("values", "rounds", "expected"),
  [
    ([0.1, 0.2, 0.3, 0.5], None, 0.4),  # the second half
    ([0.1, 0.2, 0.3, 0.5], 2, 0.2),  # as if it had ended after round 2
    ([0.0] * 200 + [1.0] * 100, None, 1.0),  # the last hundred
    ([0.1, 0.2, None, None, 0.6, None], None, 0.6),  # only evaluated rounds count
    ([0.7, None, None, None], None, 0.7),  # no evaluation in the window: the last one
    ([0.5, math.inf], None, math.inf),
    ([None, None], None, None),
  ],
)
def test_final_value(values, rounds, expected):
  found = final_value.final_value(table(values), "eval/accuracy", rounds)
  assert found == (None if expected is None else pytest.approx(expected))


def test_final_value_of_a_column_that_is_not_there():
  assert final_value.final_value(table([1.0]), "eval/r2") is None
  assert final_value.final_value({}, "eval/r2") is None


def test_summary_report_and_sweep_agree_on_the_final_value(tmp_path):
  folder = write_run(tmp_path, "fedavg", [0.1, 0.2, 0.9, 0.7, None])
  found = reader.read(folder).columns
  expected = 0.7  # the window is rounds 4 and 5, and round 5 has no evaluation
  assert final_value.final_value(found, "eval/accuracy") == expected
  told = summary.summarise(found)
  assert told["final eval/accuracy"] == expected
  assert told["final"] == "the mean over the last 2 rounds"
  assert told["last eval/accuracy"] == 0.7
  assert outcomes.outcome(folder, None, None).score == expected


@pytest.mark.parametrize(
  ("evaluated", "column"),
  [
    ({"eval/loss", "eval/accuracy"}, "eval/accuracy"),
    ({"eval/loss", "eval/r2"}, "eval/loss"),  # a regression, in sweeps as in reports
    ({"eval/loss", "eval/recall_at_5"}, "eval/recall_at_5"),
    ({"eval/loss", "eval/accuracy_no_eos", "eval/accuracy"}, "eval/accuracy"),
    ({"eval/mse", "eval/loss"}, "eval/loss"),
  ],
)
def test_the_metric_of_a_task(evaluated, column):
  assert metric.main_metric(evaluated).column == column
  assert metric.main_metric(evaluated).larger_is_better == (column != "eval/loss")


def test_a_metric_by_its_name():
  assert metric.named("eval/r2") == metric.Metric("eval/r2", larger_is_better=True)
  assert [metric.named(name).sign for name in ("loss", "distance", "mse", "accuracy")] == [
    -1,
    -1,
    -1,
    1,
  ]
  assert metric.main_metric(["eval/r2"]) is None


@pytest.mark.parametrize(
  ("row", "expected"),
  [
    ({"train/loss": 1.0, "eval/loss": 2.0, "clients": 3, "clients/non_finite": 0}, False),
    ({"train/loss": math.nan}, True),
    ({"train/loss": 1.0, "eval/loss": math.inf}, True),
    ({"train/loss": 1.0, "train/r2": math.nan}, False),  # undefined on a small cohort
    ({"clients": 0, "clients/non_finite": 2}, True),  # every update was rejected
    ({"clients": 1, "clients/non_finite": 2, "train/loss": 1.0}, False),
    ({"clients": 0, "clients/non_finite": 0}, False),  # a skipped round
    ({"train/loss": None, "eval/loss": None}, False),
  ],
)
def test_divergence(row, expected):
  assert has_diverged(row) is expected


def test_the_columns_of_a_run():
  plain = columns.header(["loss", "num_examples"])
  assert plain == ["round", "train/loss", "train/num_examples", "eval/loss", "bytes/down", "bytes/up",
                   "bytes/total", "clients", "clients/non_finite", "update_norm", "seconds/store",
                   "seconds/data", "seconds/train", "seconds/eval"]  # fmt: skip
  full = columns.header(["loss"], ["clients/late"], ["diagnostics/drift"])
  assert full[-8:] == ["clients/late", "diagnostics/drift", "seconds/clock", "seconds/store",
                       "seconds/data", "seconds/train", "seconds/diagnostics", "seconds/eval"]  # fmt: skip


def test_a_row_that_is_being_written_is_ignored_while_the_run_goes_on(tmp_path):
  path = tmp_path / "metrics.csv"
  path.write_text("round,train/loss,seconds/eval\n1,0.5,\n2,0")
  assert reader.read_metrics(path, running=True)["round"].tolist() == [1]
  with pytest.raises(reader.UnusableRun, match=r"row 2 of metrics.csv has 2 values for 3 columns"):
    reader.read_metrics(path)
