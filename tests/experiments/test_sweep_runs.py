"""Sweeps in real processes: none is left behind; interrupted sweeps continue; jobs run in parallel."""

import csv
import json
import signal
import subprocess
import sys
import time

import psutil
import pytest

from experiments.sweeps import ray_pool
from experiments.sweeps.local_pool import LocalPool
from experiments.sweeps.pool import PoolJob
from tests import ROOT
from tests.experiments.test_sweep import command, sweep


def script(tmp_path, name, code):
  return PoolJob(name, [sys.executable, "-c", code], tmp_path / f"{name}.log")


def wait_for(condition, seconds=60):
  deadline = time.monotonic() + seconds
  while not condition():
    assert time.monotonic() < deadline, "the condition did not become true in time"
    time.sleep(0.02)


def test_a_pool_limits_the_jobs_and_returns_their_exit_codes(tmp_path):
  pool = LocalPool(2)
  pool.start(script(tmp_path, "a", "raise SystemExit(3)"))
  pool.start(script(tmp_path, "b", "print('hello')"))
  assert pool.free == 0
  found = {}
  while pool.running:
    found.update({ended.name: ended.code for ended in pool.ended(timeout=1)})
  assert found == {"a": 3, "b": 0}
  assert (tmp_path / "b.log").read_text() == "hello\n"


def test_an_interrupt_reaches_the_run_and_its_child_processes_are_killed(tmp_path):
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
  assert [ended.code for ended in pool.ended(timeout=60)] == [130]
  wait_for(lambda: not alive(grandchild))


def test_runs_end_when_the_sweep_is_killed(tmp_path):
  code = (
    "import pathlib, sys, time\n"
    f"sys.path.insert(0, {str(ROOT)!r})\n"
    "from experiments.sweeps.local_pool import LocalPool\n"
    "from experiments.sweeps.pool import PoolJob\n"
    "run = 'import os, time; print(os.getpid(), flush=True); time.sleep(600)'\n"
    f"log = pathlib.Path({str(tmp_path)!r}) / 'log'\n"
    "LocalPool(1).start(PoolJob('a', [sys.executable, '-c', run], log))\n"
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


# Real sweeps.


def read_table(folder):
  with open(folder / "sweep.csv", newline="") as file:
    return {row["cell"]: row for row in csv.DictReader(file)}


def test_a_failed_or_diverged_run_is_recorded_and_stops_nothing(tmp_path):
  arguments = ["--task=quadratic", "--algo=fedavg", "--grid", "client_learning_rate=0.2,1000,0.1", "--jobs=2",
               "--total_rounds=15", "--clients_per_round=2", "--num_clients=4", "--metric=loss",
               f"--root_output_dir={tmp_path}", "--sweep_name=s"]  # fmt: skip
  taken = tmp_path / "s" / "fedavg-client_learning_rate=0.2-seed=1"
  taken.mkdir(parents=True)
  (taken / "config.json").write_text("somebody else's")
  result = sweep(*arguments)
  assert result.returncode == 1, result.stderr
  table = read_table(tmp_path / "s")
  states = {row["client_learning_rate"]: row["state"] for row in table.values()}
  assert states == {"0.2": "failed", "1000": "diverged", "0.1": "done"}
  assert "must hold a run" in table[taken.name]["reason"]
  assert "client_learning_rate=1000 | ×" in (tmp_path / "s" / "sweep.md").read_text()
  assert json.loads((tmp_path / "s" / "sweep.json").read_text())["cells"][2]["state"] == "done"
  assert not list((tmp_path / "s").glob("*.part"))


def test_a_forked_run_is_bit_identical_to_a_new_process(tmp_path):
  flags = ["--task=digits", "--algo=scaffold", "--total_rounds=4", "--tune_on=validation",
           f"--root_output_dir={tmp_path}"]  # fmt: skip
  result = sweep(*flags, "--sweep_name=s")
  assert result.returncode == 0, result.stdout + result.stderr
  cold = subprocess.run(
    [sys.executable, "experiments/run.py", *flags, "--experiment_name=cold", "--quiet"], cwd=ROOT
  )
  assert cold.returncode == 0
  assert numbers(tmp_path / "s" / "scaffold-seed=1") == numbers(tmp_path / "cold")
  events = [len(list(folder.rglob("*tfevents*"))) for folder in (tmp_path / "s", tmp_path / "cold")]
  assert events[0] == events[1] > 0


def numbers(folder):
  with open(folder / "metrics.csv", newline="") as file:
    return [
      {k: v for k, v in row.items() if not k.startswith("seconds/")} for row in csv.DictReader(file)
    ]


# Two algorithms, four configurations of each, two seeds.
GRID = ["--task=digits", "--algo=fedavg", "--algo=fedavgm", "--grid", "client_learning_rate=0.1,0.05",
        "--grid", "fedavgm:beta=0.5,0.9", "--grid", "fedavg:server_learning_rate=1,0.5", "--seeds=1,2",
        "--jobs=2", "--rounds_per_checkpoint=5", "--sweep_name=s"]  # fmt: skip
RUNS = 16


def stamps(folder):
  return {path.parent.name: path.stat().st_mtime_ns for path in folder.glob("*/summary.json")}


@pytest.mark.slow
def test_an_interrupted_sweep_continues_without_repeating_runs(tmp_path):
  arguments = [*GRID, "--total_rounds=40", f"--root_output_dir={tmp_path}"]
  folder = tmp_path / "s"
  for number in (signal.SIGINT, signal.SIGKILL):
    before = stamps(folder)
    running = subprocess.Popen(command(*arguments), cwd=ROOT, stdout=subprocess.DEVNULL,
                               stderr=subprocess.DEVNULL)  # fmt: skip
    wait_for(lambda: len(stamps(folder)) >= len(before) + 2, 1200)  # noqa: B023
    wait_for(lambda: len(runs_of(running)) == 2, 120)  # noqa: B023
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


def runs_of(sweeping):
  """The runs of a sweep: children of the fork server, which is a child of the sweep."""
  family = psutil.Process(sweeping.pid).children(recursive=True)
  return [process for process in family if process.ppid() != sweeping.pid]


def check_digits_sweep(folder, rounds):
  table = read_table(folder)
  assert len(table) == RUNS
  for name, row in table.items():
    with open(folder / name / "metrics.csv", newline="") as file:
      rows = list(csv.DictReader(file))
    assert [int(r["round"]) for r in rows] == list(range(1, rounds + 1))
    last = [float(r[row["metric"]]) for r in rows[-(rounds // 2) :]]
    assert row["metric"] == "validation/accuracy"
    assert float(row["final"]) == pytest.approx(sum(last) / len(last))
    on_test = [float(r["eval/accuracy"]) for r in rows[-(rounds // 2) :]]
    assert float(row["test"]) == pytest.approx(sum(on_test) / len(on_test))
    assert row["state"] == "done"


@pytest.mark.slow
def test_wall_time_is_that_of_the_runs_divided_by_the_jobs(tmp_path):
  arguments = [*GRID, "--total_rounds=60", f"--root_output_dir={tmp_path}"]
  started = time.monotonic()
  result = sweep(*arguments)
  wall = time.monotonic() - started
  assert result.returncode == 0, result.stdout + result.stderr
  # "name: done after 12 s, accuracy ..." for each run.
  runs = [float(line.split(" after ")[1].split(" s")[0]) for line in result.stdout.splitlines()
          if " after " in line]  # fmt: skip
  assert len(runs) == RUNS
  print(f"\n{wall:.0f} s for runs of {sum(runs):.0f} s in two jobs: {wall / (sum(runs) / 2):.3f}")
  assert wall <= 1.2 * sum(runs) / 2


@pytest.mark.slow
def test_halving_continues_only_the_best(tmp_path):
  arguments = ["--task=digits", "--algo=fedavg", "--grid", "client_learning_rate=0.1,0.001,0.00001",
               "--total_rounds=9", "--halving=3", "--jobs=2", f"--root_output_dir={tmp_path}",
               "--sweep_name=s"]  # fmt: skip
  for _ in range(2):  # the second time there is nothing to do, and the table is the same
    result = sweep(*arguments)
    assert result.returncode == 0, result.stdout + result.stderr
    table = read_table(tmp_path / "s")
    found = {row["client_learning_rate"]: (row["state"], row["rounds"]) for row in table.values()}
    assert found == {"0.1": ("done", "9"), "0.001": ("pruned", "3"), "0.00001": ("pruned", "3")}


def test_runs_on_other_nodes_know_the_folder_of_the_data(monkeypatch, tmp_path):
  monkeypatch.delenv("TFM_DATA_DIR", raising=False)
  assert set(ray_pool.environment()) == {"PYTHONPATH"}
  monkeypatch.chdir(tmp_path)
  monkeypatch.setenv("TFM_DATA_DIR", "data")
  assert ray_pool.environment()["TFM_DATA_DIR"] == str(tmp_path / "data")


@pytest.mark.slow
def test_a_sweep_runs_on_ray(tmp_path):
  result = sweep("--task=quadratic", "--algo=fedavg", "--algo=fedavgm", "--total_rounds=3", "--ray=local",
                 f"--root_output_dir={tmp_path}", "--sweep_name=s")  # fmt: skip
  assert result.returncode == 0, result.stdout + result.stderr
  assert "INFO" not in result.stderr
  assert "INFO" not in result.stderr
  assert {row["state"] for row in read_table(tmp_path / "s").values()} == {"done"}


def test_shards_of_a_sweep_run_side_by_side_in_one_folder(tmp_path):
  """As a job array runs them: three processes at once, then the tables."""
  arguments = ["--task=quadratic", "--algo=fedavg", "--grid", "client_learning_rate=0.1,0.05", "--seeds=1,2",
               "--total_rounds=2", "--lean", f"--root_output_dir={tmp_path}", "--sweep_name=s"]  # fmt: skip
  command = [sys.executable, "experiments/sweep.py", *arguments]
  shards = [
    subprocess.Popen([*command, f"--shard={i}/3"], cwd=ROOT, stdout=subprocess.PIPE, text=True)
    for i in (1, 2, 3)
  ]
  for i, shard in enumerate(shards, 1):
    out, _ = shard.communicate(timeout=300)
    assert shard.returncode == 0, out
    assert f"Shard {i}/3 is done" in out
  folder = tmp_path / "s"
  assert not (folder / "sweep.json").exists()
  done = {path.parent.name: path.stat().st_mtime_ns for path in folder.glob("*/summary.json")}
  assert len(done) == 4
  assert sweep(*arguments).returncode == 0
  assert {row["state"] for row in read_table(folder).values()} == {"done"}
  assert done == {
    path.parent.name: path.stat().st_mtime_ns for path in folder.glob("*/summary.json")
  }
  for wrong in ("0/3", "4/3", "1", "a/b"):
    assert "--shard takes i/n" in sweep(*arguments, f"--shard={wrong}").stderr
