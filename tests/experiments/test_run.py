"""The runner as its users meet it: real processes, real folders, wrong input."""

import csv
import json
import subprocess
import sys
import time

import pytest

from tests import ROOT
from tests.helpers import forked_runs


def run(*arguments, timeout=300):
  command = [sys.executable, "experiments/run.py", *arguments]
  return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=timeout)


def assert_one_sentence(result, *parts):
  assert result.returncode == 2, result.stderr
  assert "Traceback" not in result.stderr
  assert len(result.stderr.strip().splitlines()) == 1, result.stderr
  for part in parts:
    assert part in result.stderr


# Without TensorFlow: names and flags.
QUICK = {
  "unknown flag": (["--tsk=digits"], ["--tsk", "--task"]),
  "unknown task": (["--task=digts", "--algo=fedavg"], ["'digts'", "digits"]),
  "unknown algorithm": (["--task=digits", "--algo=scafold"], ["'scafold'", "scaffold"]),
  "missing task": (["--algo=fedavg"], ["--task is missing"]),
  "missing algorithm": (["--task=digits"], ["--algo is missing"]),
  "not a number": (
    ["--task=digits", "--algo=fedavg", "--total_rounds=ten"],
    ["total_rounds", "ten"],
  ),
  "out of range": (["--task=digits", "--algo=fedavg", "--total_rounds=0"], ["total_rounds"]),
  "not among the choices": (["--task=digits", "--algo=fedavg", "--runtime=gpu"], ["inprocess"]),
  "no value": (["--task=digits", "--algo=fedavg", "--set", "beta"], ["name=value", "'beta'"]),
  "given twice": (
    ["--task=digits", "--algo=fedavg", "--set", "a=1", "--set", "a=2"],
    ["given twice"],
  ),
  "a stray word": (["digits"], ["'digits'"]),
  "epochs and steps": (
    ["--task=digits", "--algo=fedavg", "--client_epochs_per_round=1", "--client_steps_per_round=1"],
    ["exclude each other"],
  ),
}


@pytest.mark.parametrize("case", QUICK)
def test_wrong_names_and_flags_answer_at_once(case):
  arguments, parts = QUICK[case]
  started = time.process_time_ns()
  result = run(*arguments)
  assert_one_sentence(result, *parts)
  assert time.process_time_ns() - started < 1e9


def test_wrong_flags_do_not_import_tensorflow():
  code = (
    "import sys, runpy\nsys.argv = ['run.py', '--task=digts', '--algo=fedavg']\n"
    "try: runpy.run_path('experiments/run.py', run_name='__main__')\n"
    "except SystemExit as e: print(e.code, 'tensorflow' in sys.modules)"
  )
  result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
  assert result.stdout.split() == ["2", "False"], result.stderr


# With TensorFlow, in one process: what the builders and tasks check.
LATER = {
  "unknown hyperparameter": (["--algo=fedavgm", "--set", "bta=0.9"], ["'bta'", "beta"]),
  "hyperparameter out of range": (["--algo=fedavgm", "--set", "beta=1.5"], ["beta", "below 1", "1.5"]),
  "hyperparameter of a wrong type": (["--algo=fedavgm", "--set", "beta=much"], ["beta", "'much'"]),
  "wrong option": (["--algo=scaffold", "--set", "option=III"], ["option", "'III'"]),
  "wrong optimizer": (["--algo=mime", "--set", "optimizer=sgmd(0.9)"], ["sgdm"]),
  "flag it has not": (["--algo=mime", "--server_learning_rate=1"], ["mime", "server_learning_rate"]),
  "negative learning rate": (["--algo=fedavg", "--client_learning_rate=-1"], ["client_learning_rate", "-1"]),
  "task option": (["--algo=fedavg", "--similarity=3"], ["digits", "similarity"]),
  "too many clients": (["--algo=fedavg", "--clients_per_round=999"], ["clients_per_round", "999"]),
  "bad split": (["--algo=fedavg", "--alpha=-1"], ["alpha", "-1"]),
  "folder name": (["--algo=fedavg", "--experiment_name=../up"], ["experiment_name"]),
}  # fmt: skip


def test_wrong_values_are_one_sentence_before_anything_is_trained(tmp_path):
  code = """
import json, sys, io, contextlib
sys.path.insert(0, ".")
from absl import flags
from experiments.cli import errors, run_request
from experiments.cli import flags as cli_flags
from experiments.training import experiment
cli_flags.define_flags()
for name, arguments in json.load(sys.stdin).items():
  flags.FLAGS.unparse_flags()
  for flag in flags.FLAGS: flags.FLAGS[flag].unparse()
  try:
    cli_flags.parse(["run.py", "--task=digits", *arguments])
    experiment.run(run_request.from_flags(flags.FLAGS))
    print(json.dumps([name, "ran"]))
  except errors.UserError as error:
    print(json.dumps([name, str(error)]))
"""
  given = {
    name: [*arguments, f"--root_output_dir={tmp_path}", "--total_rounds=1"]
    for name, (arguments, _) in LATER.items()
  }
  result = subprocess.run(
    [sys.executable, "-c", code], cwd=ROOT, input=json.dumps(given), capture_output=True, text=True
  )
  assert result.returncode == 0, result.stderr
  answers = dict(json.loads(line) for line in result.stdout.splitlines())
  for name, (_, parts) in LATER.items():
    assert all(part in answers[name] for part in parts), (name, answers[name])
    assert "\n" not in answers[name]
  assert not list(tmp_path.iterdir())


def test_list_names_everything():
  result = run("--list")
  assert result.returncode == 0
  assert all(word in result.stdout for word in ("digits", "quadratic", "scaffold", "mime", "ghbm"))


def test_a_complete_run(tmp_path):
  arguments = ["--task=digits", "--algo=scaffold", "--total_rounds=12", "--rounds_per_eval=5", "--quiet",
               "--set", "option=I", f"--root_output_dir={tmp_path}", "--experiment_name=one"]  # fmt: skip
  result = run(*arguments)
  assert result.returncode == 0, result.stderr
  assert "Finished 12 rounds. Final test accuracy 0." in result.stdout
  folder = tmp_path / "one"
  config = json.loads((folder / "config.json").read_text())
  assert config["hyperparameters"]["option"] == "I"
  assert config["versions"]["tensorflow-federated"] == "0.87.0"
  rows = list(csv.DictReader((folder / "metrics.csv").read_text().splitlines()))
  assert [int(row["round"]) for row in rows] == list(range(1, 13))
  evaluated = [int(row["round"]) for row in rows if row["eval/accuracy"]]
  assert evaluated == [5, 10, 12]
  assert float(rows[-1]["train/loss"]) < float(rows[0]["train/loss"])
  assert int(rows[-1]["bytes/total"]) == 12 * (
    int(rows[0]["bytes/down"]) + int(rows[0]["bytes/up"])
  )
  summary = json.loads((folder / "summary.json").read_text())
  assert summary["last eval/accuracy"] == float(rows[-1]["eval/accuracy"])
  final = sum(float(row["eval/accuracy"]) for row in rows[6:] if row["eval/accuracy"]) / 2
  assert summary["final eval/accuracy"] == pytest.approx(final)
  assert summary["final"] == "the mean over the last 6 rounds"
  assert f"Final test accuracy {final:.4g}, the mean over the last 6 rounds;" in result.stdout


def test_a_run_that_diverges_ends_early_and_says_so(tmp_path):
  arguments = ["--task=digits", "--algo=fedavg", "--total_rounds=50", "--client_learning_rate=1e30",
               "--quiet", f"--root_output_dir={tmp_path}", "--experiment_name=wild"]  # fmt: skip
  result = forked_runs.run(*arguments)
  assert result.returncode == 3, result.output
  assert "diverged in round" in result.output
  assert "Lower the learning rates" in result.output
  rows = list(csv.DictReader((tmp_path / "wild" / "metrics.csv").read_text().splitlines()))
  assert len(rows) < 10
  assert sum(int(row["clients/non_finite"]) for row in rows) > 0
  summary = json.loads((tmp_path / "wild" / "summary.json").read_text())
  assert summary["diverged"] is True
  again = forked_runs.run(*arguments)
  assert again.returncode == 3
  assert "diverged in round" in again.output
  fatal = forked_runs.run(*arguments, "--restart", "--non_finite=fatal")
  assert fatal.returncode != 0
  assert "fedavg: client" in fatal.output
  assert "Lower the learning rate" in fatal.output
