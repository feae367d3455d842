"""How tasks do at full size: how soon the first round starts, in how much memory, and what reading costs."""

import csv
import pathlib
import subprocess
import sys
import time

import numpy as np
import pytest

from tests import ROOT

MOST_SECONDS, MOST_GIB = 20, 3


def peak_gib(process) -> float:
  """The most memory that a running process has held; 0 if it has just ended."""
  status = pathlib.Path(f"/proc/{process.pid}/status").read_text()
  lines = [line for line in status.splitlines() if line.startswith("VmHWM")]
  return int(lines[0].split()[1]) / 2**20 if lines else 0.0


def first_row(path):
  if not path.exists():
    return None
  with open(path, newline="") as file:
    return next((row for row in csv.DictReader(file) if row["seconds/eval"]), None)


@pytest.mark.slow
def test_a_third_of_a_million_users_start_soon_and_in_little_memory(tmp_path):
  """The full-size model; training starts when the first round's row appears, less what it took."""
  command = [sys.executable, "experiments/run.py", "--task=stackoverflow", "--data=synthetic",
             "--num_clients=342477", "--algo=fedavg", "--total_rounds=2", "--quiet",
             "--rounds_per_eval=2", f"--root_output_dir={tmp_path}", "--experiment_name=run"]  # fmt: skip
  started, peak = time.monotonic(), 0.0
  process = subprocess.Popen(command, cwd=ROOT)
  row, seen = None, started
  while process.poll() is None and time.monotonic() < started + 900:
    time.sleep(0.05)
    peak = max(peak, peak_gib(process))
    if row is None:
      row, seen = first_row(tmp_path / "run" / "metrics.csv"), time.monotonic()
  assert process.wait(timeout=10) == 0
  delay = seen - started - float(row["seconds/train"])
  print(f"\nfirst round: training starts after {delay:.1f} s; peak memory {peak:.2f} GiB")
  assert delay < MOST_SECONDS
  assert peak < MOST_GIB


@pytest.mark.slow
@pytest.mark.parametrize("name", ["emnist_digits", "shakespeare", "cifar100", "stackoverflow"])
def test_reading_a_cohort_costs_less_than_a_tenth_of_training_it(name):
  """Making the data sets and iterating them, against the rounds that do both and train."""
  import tasks
  from tff_momentum import algorithms
  from tff_momentum.processes.process import build_process
  from tff_momentum.runtime import set_execution_context
  from tff_momentum.simulation import loop

  set_execution_context()
  task = tasks.loader(name)(seed=1, data="synthetic", num_clients=200)
  rate, size = task.defaults.client_learning_rate, task.defaults.client_batch_size
  process = build_process(algorithms.builder("fedavg")(client_learning_rate=rate), task.model)
  options = dict(clients_per_round=50, client_batch_size=size, rounds_per_eval=0)
  rounds = list(loop.rounds(process, task, total_rounds=2, **options))
  seconds = rounds[1].row  # the first one compiles
  cohort = [task.clients[i] for i in np.random.default_rng(0).choice(200, 50, replace=False)]
  seeds = [np.array([1, k], np.int32) for k in range(50)]

  begin = time.perf_counter()
  datasets = [task.dataset(*pair, size) for pair in zip(cohort, seeds, strict=True)]
  made = time.perf_counter()
  for dataset in datasets:
    for _ in dataset:
      pass
  read = time.perf_counter()
  reading = seconds["seconds/data"] + (read - made)
  whole = seconds["seconds/data"] + seconds["seconds/train"]
  print(
    f"\n{name}: making 50 data sets {made - begin:.3f} s, iterating them {read - made:.3f} s; "
    f"a round: data {seconds['seconds/data']:.3f} s, train {seconds['seconds/train']:.2f} s: "
    f"{reading / whole:.1%} for reading"
  )
  assert reading < 0.1 * whole
