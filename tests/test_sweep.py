"""Sweeps: cells from grids, processes that leave nothing behind, real sweeps interrupted and continued."""

import csv
import json
import os
import pathlib
import signal
import subprocess
import sys
import time

import psutil
import pytest
from absl import flags

from experiments import settings
from experiments.settings import UserError
from experiments.sweeping import driver, grids, halving, results, tables
from experiments.sweeping.cells import Cell, Entry, cells_of
from experiments.sweeping.processes import Job, LocalPool
from experiments.sweeping.results import Outcome

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture(scope="module", autouse=True)
def _flags():
  if "task" not in flags.FLAGS:
    settings.define_flags()


def command(*arguments):
  return [sys.executable, "experiments/sweep.py", *arguments]


def sweep(*arguments, timeout=900):
  return subprocess.run(
    command(*arguments), cwd=ROOT, capture_output=True, text=True, timeout=timeout
  )


def entry(*texts, algo="fedavgm", task="digits", seeds=(1,)):
  return Entry(
    algo, task, algo, (f"--task={task}", f"--algo={algo}"), tuple(map(grids.read, texts)), seeds
  )


# Grids and cells.


def test_values_are_split_outside_of_brackets():
  assert grids.split("sgdm(0.9, dampened=True),sgd") == ("sgdm(0.9, dampened=True)", "sgd")
  grid = grids.read("fedgbo:optimizer=sgdm(0.9, dampened=True), sgd")
  assert (grid.scope, grid.name, len(grid.values)) == ("fedgbo", "optimizer", 2)


@pytest.mark.parametrize("text", ["beta", "beta=", "beta=1,,2", "=1", ":beta=1", "a b=1", "seed=1,2",
                                  "beta=1,1"])  # fmt: skip
def test_what_is_no_grid_is_refused(text):
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


def test_cells_are_the_product_first_seeds_first_under_readable_safe_names():
  cells = cells_of([entry("beta=0.9,0.99", "client_learning_rate=0.1", seeds=(1, 2))])
  assert [cell.name for cell in cells] == [
    "fedavgm-beta=0.9-client_learning_rate=0.1-seed=1",
    "fedavgm-beta=0.99-client_learning_rate=0.1-seed=1",
    "fedavgm-beta=0.9-client_learning_rate=0.1-seed=2",
    "fedavgm-beta=0.99-client_learning_rate=0.1-seed=2",
  ]
  assert set(cells[1].flags) == {"--task=digits", "--algo=fedavgm", "--set=beta=0.99",
                                 "--client_learning_rate=0.1", "--seed=1"}  # fmt: skip
  odd = cells_of([entry("optimizer=sgdm(0.9),sgdm(0;9),sgdm[0/9]", algo="mime")])
  assert len({cell.name for cell in odd}) == 3
  assert all(cell.name == os.path.basename(cell.name) and " " not in cell.name for cell in odd)


def test_a_name_does_not_depend_on_what_else_is_in_the_grid():
  few, many = (
    cells_of([entry(f"optimizer=sgd{more}", algo="mime")]) for more in ("", ",sgdm(0.9)")
  )
  assert few[0].name == many[0].name


# Halving.


def test_rungs_rise_to_all_rounds():
  assert halving.rungs(90, 9, 3) == [10, 30, 90]
  assert halving.rungs(100, 4, 3) == [33, 100]
  assert halving.rungs(2, 100, 3) == [2]
  assert halving.rungs(100, 1, 3) == [100]


def scored(cells, scores, metric="accuracy"):
  return {
    cell.name: Outcome("diverged" if score is None else "done", 5, score, metric)
    for cell, score in zip(cells, scores, strict=True)
  }


def test_the_best_third_of_each_algorithm_goes_on():
  cells = cells_of(
    [entry("beta=0.1,0.2,0.3,0.4"), entry("client_learning_rate=1,2,3", algo="fedavg")]
  )
  outcomes = scored(cells, [0.5, None, 0.9, 0.7, 0.1, 0.2, 0.3])
  going, leaving = halving.survivors(cells, outcomes, keep=3)
  assert [cell.values.get("beta") for cell in going if cell.algo == "fedavgm"] == ["0.3", "0.4"]
  assert [cell.values["client_learning_rate"] for cell in going if cell.algo == "fedavg"] == ["3"]
  assert len(going) + len(leaving) == len(cells)


def test_a_small_loss_is_better_and_what_diverged_never_goes_on():
  cells = cells_of([entry("beta=0.1,0.2,0.3")])
  going, _ = halving.survivors(cells, scored(cells, [3.0, 1.0, 2.0], "loss"), keep=3)
  assert [cell.values["beta"] for cell in going] == ["0.2"]
  assert halving.survivors(cells, scored(cells, [None] * 3), keep=3)[0] == []


# What a folder says.


def write_run(folder, values, *, summary=True, loss="1.0"):
  folder.mkdir(parents=True)
  rows = ["round,train/loss,eval/loss,eval/accuracy,seconds/train"]
  rows += [f"{i + 1},{loss},{1 - v},{v},0.5" for i, v in enumerate(values)]
  (folder / "metrics.csv").write_text("\n".join(rows) + "\n")
  if summary:
    (folder / "summary.json").write_text(json.dumps({"rounds": len(values), "diverged": False}))


def test_a_cell_is_done_when_its_summary_covers_the_rounds(tmp_path):
  write_run(tmp_path / "a", [0.1, 0.2, 0.6])
  assert results.outcome(tmp_path / "a", 3, None) == Outcome("done", 3, 0.6, "accuracy", 1.5)
  assert results.outcome(tmp_path / "a", None, None).state == "done"
  assert results.outcome(tmp_path / "a", 4, None).state == "waiting"
  assert results.outcome(tmp_path / "a", 2, "accuracy").score == 0.2
  assert results.outcome(tmp_path / "a", 3, "loss").score == 0.4
  write_run(tmp_path / "b", [0.1], summary=False)
  assert results.outcome(tmp_path / "b", 1, None).state == "waiting"
  write_run(tmp_path / "c", [0.1], loss="nan")
  assert results.outcome(tmp_path / "c", 5, None).state == "diverged"
  assert results.outcome(tmp_path / "none", 5, None).state == "waiting"


def test_the_score_is_the_mean_of_the_last_tenth(tmp_path):
  write_run(tmp_path / "a", [i / 100 for i in range(40)])
  assert results.outcome(tmp_path / "a", 40, None).score == pytest.approx(0.375)
  assert results.outcome(tmp_path / "a", 20, None).score == pytest.approx(0.185)


def test_the_table_has_mean_and_deviation_bold_for_the_best_and_a_cross_for_divergence():
  cells = cells_of([entry("beta=0.1,0.2,0.3", seeds=(1, 2))])
  outcomes = scored(cells, [0.5, 0.8, 0.9, 0.7, 0.6, None])
  text = tables.markdown(tables.lines(cells, outcomes), {"scale": 0.05, "data": None})
  assert "| fedavgm | beta=0.2 | **0.7000 ± 0.1414** | 2 done |" in text
  assert "| fedavgm | beta=0.1 | 0.6000 ± 0.1414 | 2 done |" in text
  assert "| fedavgm | beta=0.3 | × | 1 diverged, 1 done |" in text
  assert "scale: 0.05" in text
  assert "None" not in text


# Processes.


def script(tmp_path, name, code):
  return Job(name, [sys.executable, "-c", code], tmp_path / f"{name}.log")


def wait_for(condition, seconds=60):
  deadline = time.monotonic() + seconds
  while not condition():
    assert time.monotonic() < deadline, "waited in vain"
    time.sleep(0.02)


def test_never_more_jobs_than_asked_and_their_codes_are_told(tmp_path):
  pool = LocalPool(2)
  pool.start(script(tmp_path, "a", "raise SystemExit(3)"))
  pool.start(script(tmp_path, "b", "print('hello')"))
  assert pool.free == 0
  found = {}
  while pool.running:
    found.update({ended.name: ended.code for ended in pool.ended(patience=1)})
  assert found == {"a": 3, "b": 0}
  assert (tmp_path / "b.log").read_text() == "hello\n"


def test_an_interrupt_reaches_the_run_and_what_a_run_leaves_is_ended(tmp_path):
  code = (
    "import signal, subprocess, sys, time\n"
    "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
    "signal.signal(signal.SIGINT, lambda *_: sys.exit(130))\n"
    "print(child.pid, flush=True)\n"
    "time.sleep(600)"
  )
  pool = LocalPool(1)
  pool.start(script(tmp_path, "a", code))
  log = tmp_path / "a.log"
  wait_for(lambda: log.read_text().endswith("\n"))
  grandchild = int(log.read_text())
  pool.interrupt()
  assert [ended.code for ended in pool.ended(patience=60)] == [130]
  wait_for(lambda: not alive(grandchild))


def test_runs_end_when_the_sweep_is_killed(tmp_path):
  code = (
    "import pathlib, sys, time\n"
    f"sys.path.insert(0, {str(ROOT)!r})\n"
    "from experiments.sweeping.processes import Job, LocalPool\n"
    "run = 'import os, time; print(os.getpid(), flush=True); time.sleep(600)'\n"
    f"LocalPool(1).start(Job('a', [sys.executable, '-c', run], pathlib.Path({str(tmp_path)!r}) / 'log'))\n"
    "time.sleep(600)"
  )
  sweeping = subprocess.Popen([sys.executable, "-c", code])
  log = tmp_path / "log"
  wait_for(lambda: log.exists() and log.read_text().endswith("\n"))
  sweeping.kill()
  sweeping.wait()
  wait_for(lambda: not alive(int(log.read_text())))


def alive(pid):
  try:
    return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
  except psutil.NoSuchProcess:
    return False


# The command line.

DIGITS = ["--task=digits", "--algo=fedavgm"]
WRONG = {
  "task": (["--task=digts", "--algo=fedavg"], ["'digts'", "digits"]),
  "algorithm": (["--task=digits", "--algo=fedavg", "--algo=scafold"], ["'scafold'", "scaffold"]),
  "algorithm twice": ([*DIGITS, "--algo=fedavgm"], ["twice"]),
  "no algorithm": (["--task=digits"], ["--algo is missing"]),
  "grid": ([*DIGITS, "--grid", "beta"], ["name=value", "'beta'"]),
  "name in a grid": ([*DIGITS, "--grid", "bta=1,2"], ["'bta'", "beta"]),
  "scope of a grid": ([*DIGITS, "--grid", "scaffold:option=I"], ["scaffold", "not in the sweep"]),
  "set": ([*DIGITS, "--set", "bta=1"], ["'bta'", "beta"]),
  "seeds": ([*DIGITS, "--seeds=1,x"], ["--seeds", "1,x"]),
  "preset": (["--preset=ghmb/table1"], ["ghmb/table1", "ghbm/table1"]),
  "nothing left": (["--preset=ghbm/table1", "--algo=mfl"], ["none of the 65"]),
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
  assert len(lines) == 5 * 5


# Folders.


def test_a_failed_run_is_quoted_by_its_sentence_or_its_error(tmp_path):
  log = tmp_path / "log"
  log.write_text("run.py: beta must be below 1.\nException ignored in: <x>\nAttributeError: y\n")
  assert driver.last_words(log, 2) == "run.py: beta must be below 1. (exit code 2)"
  log.write_text("Traceback:\nKeyError: 'z'\n")
  assert driver.last_words(log, 1) == "KeyError: 'z' (exit code 1)"
  assert driver.last_words(tmp_path / "none", -9) == "signal 9"


def a_cell(flags=("--seed=1",)):
  return Cell("a-seed=1", "a", "digits", "fedavg", {}, 1, flags)


def test_a_folder_with_other_settings_is_refused(tmp_path):
  tables.write(tmp_path, [a_cell()], {"a-seed=1": Outcome("done")}, {})
  driver.check_unchanged(tmp_path, [a_cell(("--seed=1", "--total_rounds=9"))])
  with pytest.raises(UserError, match="--weight_decay=1"):
    driver.check_unchanged(tmp_path, [a_cell(("--seed=1", "--weight_decay=1"))])


def test_two_sweeps_do_not_share_a_folder(tmp_path):
  held = driver.lock(tmp_path)
  with pytest.raises(UserError, match="running"):
    driver.lock(tmp_path)
  held.close()


# Real sweeps.


def read_table(folder):
  with open(folder / "sweep.csv", newline="") as file:
    return {row["cell"]: row for row in csv.DictReader(file)}


def test_a_failed_or_diverged_cell_is_recorded_and_stops_nothing(tmp_path):
  arguments = ["--task=quadratic", "--algo=fedavg", "--grid", "client_learning_rate=-1,1000,0.1", "--jobs=2",
               "--total_rounds=15", "--clients_per_round=2", "--num_clients=4", "--metric=loss",
               f"--root_output_dir={tmp_path}", "--sweep_name=s"]  # fmt: skip
  result = sweep(*arguments)
  assert result.returncode == 1, result.stderr
  table = read_table(tmp_path / "s")
  states = {row["client_learning_rate"]: row["state"] for row in table.values()}
  assert states == {"-1": "failed", "1000": "diverged", "0.1": "done"}
  assert "client_learning_rate" in table["fedavg-client_learning_rate=-1-seed=1"]["reason"]
  assert "client_learning_rate=1000 | ×" in (tmp_path / "s" / "sweep.md").read_text()
  assert json.loads((tmp_path / "s" / "sweep.json").read_text())["cells"][2]["state"] == "done"
  assert not list((tmp_path / "s").glob("*.part"))


GRID = ["--task=digits", "--algo=fedavg", "--algo=fedavgm", "--grid", "fedavgm:beta=0.5,0.9", "--grid",
        "fedavg:client_learning_rate=0.1,0.05", "--seeds=1,2", "--jobs=2", "--rounds_per_checkpoint=5",
        "--sweep_name=s"]  # fmt: skip


def stamps(folder):
  return {path.parent.name: path.stat().st_mtime_ns for path in folder.glob("*/summary.json")}


@pytest.mark.slow
def test_an_interrupted_sweep_goes_on_and_trains_nothing_twice(tmp_path):
  arguments = [*GRID, "--total_rounds=40", f"--root_output_dir={tmp_path}"]
  folder = tmp_path / "s"
  for number in (signal.SIGINT, signal.SIGKILL):
    before = stamps(folder)
    running = subprocess.Popen(command(*arguments), cwd=ROOT, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)  # fmt: skip
    wait_for(lambda: len(stamps(folder)) >= len(before) + 2, 600)  # noqa: B023
    wait_for(lambda: len(psutil.Process(running.pid).children()) == 2, 120)  # noqa: B023
    runs = psutil.Process(running.pid).children(recursive=True)
    running.send_signal(number)
    assert running.wait(300) in (130, -signal.SIGKILL)
    wait_for(lambda: not any(alive(run.pid) for run in runs))  # noqa: B023
    assert before.items() <= stamps(folder).items()
  before = stamps(folder)
  result = sweep(*arguments)
  assert result.returncode == 0, result.stdout + result.stderr
  assert before.items() <= stamps(folder).items()
  check_digits_sweep(folder, rounds=40)
  started = time.monotonic()
  assert sweep(*arguments).returncode == 0
  assert time.monotonic() - started < 10  # nothing was left to do


def check_digits_sweep(folder, rounds):
  table = read_table(folder)
  assert len(table) == 8
  for name, row in table.items():
    with open(folder / name / "metrics.csv", newline="") as file:
      rows = list(csv.DictReader(file))
    assert [int(r["round"]) for r in rows] == list(range(1, rounds + 1))
    last = [float(r["eval/accuracy"]) for r in rows[-rounds // 10 :]]
    assert float(row["score"]) == pytest.approx(sum(last) / len(last))
    assert row["state"] == "done"


@pytest.mark.slow
def test_wall_time_is_that_of_the_runs_divided_by_the_jobs(tmp_path):
  arguments = [*GRID, "--total_rounds=60", f"--root_output_dir={tmp_path}"]
  started = time.monotonic()
  result = sweep(*arguments)
  wall = time.monotonic() - started
  assert result.returncode == 0, result.stdout + result.stderr
  # "name: done after 12 s, accuracy ..." for each cell.
  runs = [float(line.split(" after ")[1].split(" s")[0]) for line in result.stdout.splitlines()
          if " after " in line]  # fmt: skip
  assert len(runs) == 8
  assert wall <= 1.2 * sum(runs) / 2


@pytest.mark.slow
def test_halving_goes_on_with_the_best_alone(tmp_path):
  arguments = ["--task=digits", "--algo=fedavg", "--grid", "client_learning_rate=0.1,0.001,0.00001",
               "--total_rounds=9", "--halving=3", "--jobs=2", f"--root_output_dir={tmp_path}",
               "--sweep_name=s"]  # fmt: skip
  for _ in range(2):  # the second time there is nothing to do, and the table is the same
    result = sweep(*arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    table = read_table(tmp_path / "s")
    found = {row["client_learning_rate"]: (row["state"], row["rounds"]) for row in table.values()}
    assert found == {"0.1": ("done", "9"), "0.001": ("pruned", "3"), "0.00001": ("pruned", "3")}


@pytest.mark.slow
def test_cells_run_as_ray_tasks(tmp_path):
  result = sweep("--task=quadratic", "--algo=fedavg", "--algo=fedavgm", "--total_rounds=3", "--ray=local",
                 f"--root_output_dir={tmp_path}", "--sweep_name=s")  # fmt: skip
  assert result.returncode == 0, result.stdout + result.stderr
  assert {row["state"] for row in read_table(tmp_path / "s").values()} == {"done"}
