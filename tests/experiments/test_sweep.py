"""Sweeps: grids, halving, outcomes read from run folders, tables, and the command line."""

import csv
import json
import os
import subprocess
import sys

import pytest
from absl import flags

from experiments.cli import flags as cli_flags
from experiments.cli.errors import UserError
from experiments.sweeps import grids, halving, scheduler, sweep_config, tables
from experiments.sweeps import outcomes as results
from experiments.sweeps.outcomes import Outcome
from experiments.sweeps.search_space import SearchSpace, SweepRun, runs_of
from tests import ROOT


@pytest.fixture(scope="module", autouse=True)
def _flags():
  if "task" not in flags.FLAGS:
    cli_flags.define_flags()


def command(*arguments):
  return [sys.executable, "experiments/sweep.py", *arguments]


def sweep(*arguments, timeout=900):
  return subprocess.run(
    command(*arguments), cwd=ROOT, capture_output=True, text=True, timeout=timeout
  )


def space(*texts, algo="fedavgm", task="digits", seeds=(1,)):
  return SearchSpace(
    algo, task, algo, (f"--task={task}", f"--algo={algo}"), tuple(map(grids.read, texts)), seeds
  )


# Grids and runs.


def test_values_are_split_outside_of_brackets():
  assert grids.split("sgdm(0.9, dampened=True),sgd") == ("sgdm(0.9, dampened=True)", "sgd")
  grid = grids.read("fedgbo:optimizer=sgdm(0.9, dampened=True), sgd")
  assert (grid.scope, grid.name, len(grid.values)) == ("fedgbo", "optimizer", 2)


@pytest.mark.parametrize("text", ["beta", "beta=", "beta=1,,2", "=1", ":beta=1", "a b=1", "seed=1,2",
                                  "beta=1,1"])  # fmt: skip
def test_an_invalid_grid_is_refused(text):
  with pytest.raises(UserError):
    grids.read(text)


def test_a_grid_becomes_the_flag_that_takes_it():
  def flag(text, algo="fedavgm", task="digits"):
    return grids.flag_of(grids.read(text), task, algo)

  assert flag("beta=1") == "--set=beta="
  assert flag("client_learning_rate=1") == "--client_learning_rate="
  assert flag("weight_decay=1") == "--weight_decay="
  assert flag("alpha=1") == "--alpha="
  assert flag("noise=1", task="quadratic") == "--task_set=noise="
  assert flag("num_clients=5", algo="scaffold") == "--num_clients="
  assert flag("scaffold:option=I") is None
  assert flag("beta=1", algo="fedavg") is None
  assert flag("task:alpha=1", algo="feddyn") == "--alpha="
  assert flag("feddyn:alpha=1", algo="feddyn") == "--set=alpha="
  with pytest.raises(UserError, match="task:alpha"):
    flag("alpha=1", algo="feddyn")
  with pytest.raises(UserError, match="beta"):
    flag("fedavgm:bta=1")


def test_runs_are_the_product_first_seeds_first_under_readable_safe_names():
  runs = runs_of([space("beta=0.9,0.99", "client_learning_rate=0.1", seeds=(1, 2))])
  assert [run.name for run in runs] == [
    "fedavgm-beta=0.9-client_learning_rate=0.1-seed=1",
    "fedavgm-beta=0.99-client_learning_rate=0.1-seed=1",
    "fedavgm-beta=0.9-client_learning_rate=0.1-seed=2",
    "fedavgm-beta=0.99-client_learning_rate=0.1-seed=2",
  ]
  assert set(runs[1].flags) == {"--task=digits", "--algo=fedavgm", "--set=beta=0.99",
                                 "--client_learning_rate=0.1", "--seed=1"}  # fmt: skip
  odd = runs_of([space("optimizer=sgdm(0.9),sgdm(0;9),sgdm[0/9]", algo="mime")])
  assert len({run.name for run in odd}) == 3
  assert all(run.name == os.path.basename(run.name) and " " not in run.name for run in odd)


def test_a_name_does_not_depend_on_what_else_is_in_the_grid():
  few, many = (runs_of([space(f"optimizer=sgd{more}", algo="mime")]) for more in ("", ",sgdm(0.9)"))
  assert few[0].name == many[0].name


# Halving.


def test_rungs_rise_to_all_rounds():
  assert halving.rungs(90, 9, 3) == [10, 30, 90]
  assert halving.rungs(100, 4, 3) == [33, 100]
  assert halving.rungs(2, 100, 3) == [2]
  assert halving.rungs(100, 1, 3) == [100]


def scored(runs, scores, metric="accuracy"):
  return {
    run.name: Outcome("diverged" if score is None else "done", 5, score, metric)
    for run, score in zip(runs, scores, strict=True)
  }


def test_the_best_third_of_each_algorithm_goes_on():
  runs = runs_of(
    [space("beta=0.1,0.2,0.3,0.4"), space("client_learning_rate=1,2,3", algo="fedavg")]
  )
  outcomes = scored(runs, [0.5, None, 0.9, 0.7, 0.1, 0.2, 0.3])
  going, leaving = halving.survivors(runs, outcomes, keep=3)
  assert [run.values.get("beta") for run in going if run.algo == "fedavgm"] == ["0.3", "0.4"]
  assert [run.values["client_learning_rate"] for run in going if run.algo == "fedavg"] == ["3"]
  assert len(going) + len(leaving) == len(runs)


def test_a_small_loss_is_better_and_what_diverged_never_goes_on():
  runs = runs_of([space("beta=0.1,0.2,0.3")])
  going, _ = halving.survivors(runs, scored(runs, [3.0, 1.0, 2.0], "loss"), keep=3)
  assert [run.values["beta"] for run in going] == ["0.2"]
  assert halving.survivors(runs, scored(runs, [None] * 3), keep=3)[0] == []


# Outcomes.


def write_run(folder, values, *, summary=True, loss="1.0"):
  folder.mkdir(parents=True)
  rows = ["round,train/loss,eval/loss,eval/accuracy,seconds/train"]
  rows += [f"{i + 1},{loss},{1 - v},{v},0.5" for i, v in enumerate(values)]
  (folder / "metrics.csv").write_text("\n".join(rows) + "\n")
  if summary:
    (folder / "summary.json").write_text(json.dumps({"rounds": len(values), "diverged": False}))


def test_a_run_is_done_when_its_summary_covers_the_rounds(tmp_path):
  write_run(tmp_path / "a", [0.1, 0.2, 0.6])
  assert results.outcome(tmp_path / "a", 3, None) == Outcome(
    "done", 3, 0.6, "eval/accuracy", 1.5, test=0.6
  )
  assert results.outcome(tmp_path / "a", None, None).state == "done"
  assert results.outcome(tmp_path / "a", 4, None).state == "waiting"
  assert results.outcome(tmp_path / "a", 2, "accuracy").score == 0.2
  assert results.outcome(tmp_path / "a", 3, "loss").score == 0.4
  write_run(tmp_path / "b", [0.1], summary=False)
  assert results.outcome(tmp_path / "b", 1, None).state == "waiting"
  write_run(tmp_path / "c", [0.1], loss="nan")
  assert results.outcome(tmp_path / "c", 5, None).state == "diverged"
  assert results.outcome(tmp_path / "none", 5, None).state == "waiting"


def test_the_score_is_the_final_value(tmp_path):
  write_run(tmp_path / "a", [i / 100 for i in range(40)])
  assert results.outcome(tmp_path / "a", 40, None).score == pytest.approx(0.295)  # rounds 21 to 40
  assert results.outcome(tmp_path / "a", 20, None).score == pytest.approx(0.145)  # rounds 11 to 20


def test_the_table_has_mean_and_deviation_bold_for_the_best_and_a_cross_for_divergence():
  runs = runs_of([space("beta=0.1,0.2,0.3", seeds=(1, 2))])
  outcomes = scored(runs, [0.5, 0.8, 0.9, 0.7, 0.6, None])
  text = tables.markdown(
    tables.configuration_results(runs, outcomes), {"scale": 0.05, "data": None}
  )
  assert "| fedavgm | beta=0.2 | **0.7000 ± 0.1414** | 2 done |" in text
  assert "| fedavgm | beta=0.1 | 0.6000 ± 0.1414 | 2 done |" in text
  assert "| fedavgm | beta=0.3 | × | 1 diverged, 1 done |" in text
  assert "scale: 0.05" in text
  assert "None" not in text


def write_validated_run(folder, validated, tested):
  """A run with these accuracies on its held-out clients and on the test data."""
  write_run(folder, tested)
  head, *rows = (folder / "metrics.csv").read_text().splitlines()
  lines = [f"{head},validation/loss,validation/accuracy"]
  lines += [f"{row},{1 - v},{v}" for row, v in zip(rows, validated, strict=True)]
  (folder / "metrics.csv").write_text("\n".join(lines) + "\n")


def test_held_out_clients_rank_configurations_and_the_test_data_does_not(tmp_path):
  runs = runs_of([space("beta=0.1,0.2")])
  for run, validated, tested in zip(runs, (0.7, 0.8), (0.9, 0.6), strict=True):
    write_validated_run(tmp_path / run.name, [0.1, validated], [0.2, tested])
  for metric, column in ((None, "accuracy"), ("loss", "loss")):
    outcomes = {run.name: results.outcome(tmp_path / run.name, 2, metric) for run in runs}
    assert {o.metric for o in outcomes.values()} == {f"validation/{column}"}
    going, _ = halving.survivors(runs, outcomes, keep=2)
    assert [run.values["beta"] for run in going] == ["0.2"]
  outcomes = {run.name: results.outcome(tmp_path / run.name, 2, None) for run in runs}
  assert [o.test for o in outcomes.values()] == [0.9, 0.6]
  tables.write(tmp_path, runs, outcomes, {"tuned on": sweep_config.TUNED_ON["validation"]})
  text = (tmp_path / "sweep.md").read_text()
  assert "| algorithm | values | final validation/accuracy | final eval/accuracy | runs |" in text
  assert "| fedavgm | beta=0.2 | **0.8000** | 0.6000 | 1 done |" in text
  assert "| fedavgm | beta=0.1 | 0.7000 | – | 1 done |" in text  # not to be chosen by
  assert "tuned on: held-out training clients" in text
  (row, _) = csv.DictReader((tmp_path / "sweep.csv").read_text().splitlines())
  assert (row["metric"], row["final"], row["test"]) == ("validation/accuracy", "0.7", "0.9")


# The command line.


def test_a_sweep_tunes_on_held_out_clients_unless_there_is_nothing_to_choose():
  grid = [*DIGITS, "--grid", "beta=0.1,0.2", "--dry_run"]
  assert sweep(*grid).stdout.count(" --tune_on=validation ") == 2
  assert sweep(*DIGITS, "--dry_run").stdout.count(" --tune_on=validation ") == 1
  assert "tune_on" not in sweep(*grid, "--tune_on=test").stdout  # run.py's own default
  preset = ["--preset=fedgbo/figure2/cifar100_fedprox", "--dry_run", "--seeds=1"]
  assert "tune_on" not in sweep(*preset).stdout
  assert "--tune_on=validation" in sweep(*preset, "--tune_on=validation").stdout
  assert "--tune_on=validation" in sweep(*preset, "--grid", "mu=0.1,0.2").stdout
  assert sweep(*grid, "--tune_on=train").returncode == 2


DIGITS = ["--task=digits", "--algo=fedavgm"]
WRONG = {
  "task": (["--task=digts", "--algo=fedavg"], ["'digts'", "digits"]),
  "algorithm": (["--task=digits", "--algo=fedavg", "--algo=scafold"], ["'scafold'", "scaffold"]),
  "algorithm twice": ([*DIGITS, "--algo=fedavgm"], ["repeats an algorithm", "fedavgm, fedavgm"]),
  "no algorithm": (["--task=digits"], ["--algo is missing"]),
  "grid": ([*DIGITS, "--grid", "beta"], ["name=value", "'beta'"]),
  "name in a grid": ([*DIGITS, "--grid", "bta=1,2"], ["'bta'", "beta"]),
  "scope of a grid": ([*DIGITS, "--grid", "scaffold:option=I"], ["scaffold", "not in the sweep"]),
  "set": ([*DIGITS, "--set", "bta=1"], ["'bta'", "beta"]),
  "seeds": ([*DIGITS, "--seeds=1,x"], ["--seeds", "1,x"]),
  "preset": (["--preset=ghmb/table1"], ["ghmb/table1", "ghbm/table1"]),
  "nothing left": (["--preset=ghbm/table1", "--algo=mfl"], ["none of the 78", "--algo"]),
  "halving without rounds": ([*DIGITS, "--halving=3"], ["--total_rounds"]),
  "jobs and ray": ([*DIGITS, "--ray=local", "--jobs=2"], ["exclude each other"]),
  "folder": ([*DIGITS, "--sweep_name=../up"], ["--sweep_name"]),
  "flag": ([*DIGITS, "--grids=3"], ["--grids"]),
}


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_are_one_sentence_before_anything_starts(case, tmp_path):
  arguments, parts = WRONG[case]
  result = sweep(*arguments, f"--root_output_dir={tmp_path}")
  assert result.returncode == 2, result.stderr
  assert len(result.stderr.strip().splitlines()) == 1, result.stderr
  assert all(part in result.stderr for part in parts), result.stderr
  assert not list(tmp_path.iterdir())


def test_a_sweep_itself_needs_no_tensorflow():
  code = (
    "import os, sys, runpy\n"
    "sys.argv = ['experiments/sweep.py', '--task=digits', '--algo=fedavg', '--dry_run',\n"
    "            '--grid', 'client_learning_rate=0.1,0.2']\n"
    "sys.path.insert(0, os.path.abspath('experiments'))\n"
    "runpy.run_path('experiments/sweep.py', run_name='__main__')\n"
    "print('tensorflow' in sys.modules)"
  )
  result = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True)
  assert result.stdout.splitlines()[-1] == "False", result.stderr
  assert result.stdout.count("experiments/run.py") == 2


def test_presets_are_swept_at_their_values_and_searched_on_request():
  name = "--preset=fedgbo/figure2/cifar100_fedprox"
  fixed = sweep(name, "--dry_run", "--scale=0.01", "--seeds=7").stdout.splitlines()
  assert len(fixed) == 1
  assert "--client_learning_rate=0.01" in fixed[0]
  assert "--total_rounds=50" in fixed[0]
  assert "--scale=0.01" in fixed[0]
  searched = sweep(name, "--dry_run", "--search").stdout.splitlines()
  assert len(searched) == 7 * 5
  typed = sweep(name, "--dry_run", "--seeds=1", "--grid", "mu=0.1,0.2").stdout
  assert typed.count("--set=mu=0.1") == typed.count("--set=mu=0.2") == 1
  assert "--set=mu=0.001" not in typed


def test_a_whole_table_is_listed():
  lines = sweep("--preset=ghbm/table1", "--algo=fedhbm", "--dry_run").stdout.splitlines()
  assert len(lines) == 6 * 5


# Folders.


def test_a_failed_run_is_quoted_by_its_sentence_or_its_error(tmp_path):
  log = tmp_path / "log"
  log.write_text("run.py: beta must be below 1.\nException ignored in: <x>\nAttributeError: y\n")
  assert scheduler.last_words(log, 2) == "run.py: beta must be below 1. (exit code 2)"
  log.write_text("Traceback:\nKeyError: 'z'\n")
  assert scheduler.last_words(log, 1) == "KeyError: 'z' (exit code 1)"
  assert scheduler.last_words(tmp_path / "none", -9) == "signal 9"


def a_run(flags=("--seed=1",)):
  return SweepRun("a-seed=1", "a", "digits", "fedavg", {}, 1, flags)


def test_a_folder_with_other_settings_is_refused(tmp_path):
  tables.write(tmp_path, [a_run()], {"a-seed=1": Outcome("done")}, {})
  scheduler.check_unchanged(tmp_path, [a_run(("--seed=1", "--total_rounds=9"))])
  with pytest.raises(UserError, match="--weight_decay=1"):
    scheduler.check_unchanged(tmp_path, [a_run(("--seed=1", "--weight_decay=1"))])


def test_two_sweeps_do_not_share_a_folder(tmp_path):
  held = scheduler.lock(tmp_path)
  with pytest.raises(UserError, match="running"):
    scheduler.lock(tmp_path)
  held.close()
