"""Uneven and asynchronous clients as users of run.py meet them: flags, columns, resuming.

Many command lines share one process each, since to import TensorFlow takes longer than to run them.
"""

import csv
import json
import subprocess
import sys

import pytest

from tests import ROOT
from tests.experiments.test_run import run

QUICK = {
  "unknown pattern": (["--participation=sometimes"], ["cyclic"]),
  "dropping everybody": (["--dropout_rate=1"], ["--dropout_rate", "below 1"]),
  "a bad law": (["--client_steps_law=uniform(5)"], ["--client_steps_law", "uniform(5)"]),
  "a law of broken numbers": (["--client_steps_law=constant(2.5)"], ["--client_steps_law", "2.5"]),
  "a speed of nothing": (["--client_speed=0"], ["--client_speed", "above 0"]),
  "no trace": (["--client_speed=trace:nowhere.csv"], ["--client_speed", "nowhere.csv"]),
  "steps and a law": (["--client_steps_law=3", "--client_steps_per_round=3"], ["exclude each other"]),
  "thinking in rounds": (["--think_time=3"], ["--think_time", "--async"]),
  "staleness in rounds": (["--max_staleness=3"], ["--max_staleness", "--async"]),
  "a deadline without rounds": (["--async", "--deadline=3"], ["--deadline", "--noasync"]),
  "a cycle without rounds": (["--async", "--participation=cyclic"], ["--participation"]),
  "a day of nobody's": (["--day=3"], ["--day", "--participation=availability"]),
  "an hour of nobody's": (["--availability=0.5"], ["--availability", "--async"]),
  "no over-selection": (["--over_selection=0.5"], ["--over_selection", "at least 1"]),
}  # fmt: skip


MANY = """
import json, sys
sys.path.insert(0, ".")
from absl import flags
from experiments.cli import errors, run_request
from experiments.cli import flags as cli_flags
cli_flags.define_flags()
for name, arguments in json.load(sys.stdin).items():
  for flag in flags.FLAGS: flags.FLAGS[flag].unparse()
  try:
    cli_flags.parse(["run.py", "--task=digits", *arguments])
    request = run_request.from_flags(flags.FLAGS)
    TRAIN
    print(json.dumps([name, "fine"]))
  except errors.UserError as error:
    print(json.dumps([name, str(error)]))
"""


def answers_to(commands, *, train):
  """What command lines are answered with, if any are wrong, from one process."""
  action = "from experiments.training import experiment; experiment.run(request)"
  code = MANY.replace("TRAIN", action if train else "assert 'tensorflow' not in sys.modules")
  result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, input=json.dumps(commands),
                          capture_output=True, text=True)  # fmt: skip
  assert result.returncode == 0, result.stderr
  lines = [line for line in result.stdout.splitlines() if line.startswith("[")]
  return dict(json.loads(line) for line in lines)


@pytest.fixture(scope="module")
def answers():
  given = {name: ["--algo=fedavg", *arguments] for name, (arguments, _) in QUICK.items()}
  return answers_to(given, train=False)


@pytest.mark.parametrize("case", QUICK)
def test_what_does_not_fit_is_one_sentence_before_tensorflow_is_imported(answers, case):
  assert all(part in answers[case] for part in QUICK[case][1]), answers[case]
  assert "\n" not in answers[case]


UNEVEN = ["--algo=scaffold", "--participation=cyclic", "--clients_per_round=2", "--dropout_rate=0.6",
          "--client_steps_law=uniform(1, 6)", "--client_speed=lognormal(1, 1)", "--deadline=9",
          "--over_selection=1.4"]  # fmt: skip
ASYNCHRONOUS = ["--algo=autofedgm", "--clients_per_round=3", "--server_learning_rate=4",
                "--client_steps_law=uniform(1, 6)", "--think_time=lognormal(3, 1)", "--max_staleness=6",
                "--dropout_rate=0.1"]  # fmt: skip


class Runs:
  """Runs that have ended, one after the other: (folder, flags) by name."""

  def __init__(self, folder, runs):
    self.folder = folder
    common = ["--num_clients=30", "--quiet", f"--root_output_dir={folder}", "--rounds_per_eval=4"]
    commands = {
      name: [*common, f"--experiment_name={place}", *flags] for name, (place, flags) in runs.items()
    }
    self.said = answers_to(commands, train=True)

  def rows(self, name):
    with open(self.folder / name / "metrics.csv", newline="") as file:
      return list(csv.DictReader(file))

  def json(self, name, file):
    return json.loads((self.folder / name / file).read_text())

  def assert_same(self, whole, stopped):
    """The same numbers but for timings, and evaluations where the one was stopped."""
    left, right = (
      [{k: v for k, v in row.items() if not k.startswith(("seconds/", "eval/"))} for row in rows]
      for rows in (self.rows(whole), self.rows(stopped))
    )
    assert len(left) == 12
    assert left == right


def test_uneven_rounds_are_counted_and_resumed(tmp_path):
  runs = Runs(
    tmp_path,
    {
      "whole": ("whole", [*UNEVEN, "--total_rounds=12"]),
      "stopped": ("stopped", [*UNEVEN, "--total_rounds=5"]),
      "resumed": ("stopped", [*UNEVEN, "--total_rounds=12"]),
      "otherwise": ("stopped", [*UNEVEN, "--total_rounds=12", "--deadline=8"]),
    },
  )
  assert runs.said["whole"] == runs.said["resumed"] == "fine"
  rows, summary = runs.rows("whole"), runs.json("whole", "summary.json")
  skipped = [row for row in rows if row["clients"] == "0"]
  assert summary["rounds/skipped"] == len(skipped) > 0
  assert all(row["train/loss"] == "" for row in skipped)
  assert summary["clients/dropped"] == sum(float(row["clients/dropped"]) for row in rows) > 0
  for row in rows:
    there = int(row["clients"]) + float(row["clients/dropped"]) + float(row["clients/late"])
    assert there == 3  # 1.4 times two clients, rounded up
  times = [float(row["virtual/seconds"]) for row in rows]
  assert times == sorted(times)
  runs.assert_same("whole", "stopped")
  assert "deadline was 9.0 and is now 8.0" in runs.said["otherwise"]


def test_asynchronous_runs_and_their_resuming(tmp_path):
  runs = Runs(
    tmp_path,
    {
      "whole": ("whole", [*ASYNCHRONOUS, "--total_rounds=12"]),
      "stopped": ("stopped", [*ASYNCHRONOUS, "--total_rounds=7"]),
      "resumed": ("stopped", [*ASYNCHRONOUS, "--total_rounds=12"]),
      "any": ("any", ["--algo=mime", "--async", "--total_rounds=4", "--compression=qsgd:8"]),
      "stateful": ("stateful", ["--algo=scaffold", "--async", "--total_rounds=2"]),
    },
  )
  assert runs.said["whole"] == runs.said["resumed"] == runs.said["any"] == "fine"
  rows, config = runs.rows("whole"), runs.json("whole", "config.json")
  assert {int(row["clients"]) for row in rows} == {3}
  assert max(float(row["staleness/max"]) for row in rows) > 0
  assert all(float(row["staleness/max"]) <= 6 for row in rows)
  assert config["async"] is True
  assert config["client_speed"] == "lognormal(1, 0.5)"
  assert "max_staleness" not in config["hyperparameters"]
  runs.assert_same("whole", "stopped")
  assert len(runs.rows("any")) == 4
  assert "keep no state" in runs.said["stateful"]
  assert not (tmp_path / "stateful").exists()


@pytest.mark.slow
def test_the_clock_of_ten_thousand_clients_is_a_small_part_of_a_run(tmp_path):
  arguments = ["--algo=autofedgm", "--num_clients=10000", "--clients_per_round=10", "--total_rounds=5000",
               "--client_steps_law=uniform(1, 10)", "--think_time=lognormal(1000, 1)", "--max_staleness=50",
               "--rounds_per_eval=500", "--rounds_per_checkpoint=5000", "--quiet"]  # fmt: skip
  result = run("--task=quadratic", *arguments, f"--root_output_dir={tmp_path}", "--experiment_name=one",
               timeout=1800)  # fmt: skip
  assert result.returncode == 0, result.stderr
  summary = json.loads((tmp_path / "one" / "summary.json").read_text())
  seconds = {name: value for name, value in summary.items() if name.startswith("seconds/")}
  assert seconds["seconds/clock"] < 0.1 * sum(seconds.values()), seconds
  # The ring of 50 models of 20 numbers, and little beside it.
  assert (tmp_path / "one" / "checkpoints" / "00005000" / "server").stat().st_size < 60 * 20 * 4
