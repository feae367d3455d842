"""Long and wide runs, in real processes: memory, round time, threads, files and processes stay flat."""

import csv
import json
import pathlib
import subprocess
import sys
import time

import numpy as np
import psutil
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
SETTLED, ROUNDS = 500, 5000


def watched(command: list[str], seconds: float) -> tuple[int, list[dict[str, float]]]:
  """Runs a command and looks at it now and then; returns its exit code and what was seen."""
  process = subprocess.Popen(
    command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL
  )
  seen = []
  seer = psutil.Process(process.pid)
  while process.poll() is None:
    try:
      with seer.oneshot():
        seen.append(
          {
            "memory": seer.memory_info().rss / 2**20,
            "threads": seer.num_threads(),
            "files": seer.num_fds(),
            "processes": len(seer.children(recursive=True)),
          }
        )
    except psutil.Error:
      break
    time.sleep(seconds)
  return process.wait(), seen


@pytest.mark.slow
def test_five_thousand_rounds_are_as_quick_and_as_small_at_the_end_as_at_the_beginning(tmp_path):
  command = [sys.executable, "experiments/run.py", "--task=digits", "--algo=scaffold", "--quiet",
             f"--total_rounds={ROUNDS}", "--rounds_per_eval=100", "--rounds_per_checkpoint=250",
             f"--root_output_dir={tmp_path}", "--experiment_name=soak"]  # fmt: skip
  code, seen = watched(command, 0.5)
  assert code == 0
  with open(tmp_path / "soak" / "metrics.csv", newline="") as file:
    took = np.array([float(row["seconds/train"]) for row in csv.DictReader(file)])
  early, late = (float(np.median(part)) for part in (took[SETTLED : SETTLED + 500], took[-500:]))
  settled = seen[len(seen) // 5 :]
  growth = {name: (settled[0][name], max(look[name] for look in settled)) for name in settled[0]}
  print(f"\nround time {1e3 * early:.1f} ms, then {1e3 * late:.1f} ms; {json.dumps(growth)}")
  assert late < 1.05 * early
  assert growth["memory"][1] < 1.05 * growth["memory"][0]
  for name in ("threads", "files", "processes"):
    assert growth[name][1] <= growth[name][0] + 2, name


@pytest.mark.slow
def test_a_million_clients_a_thousand_a_round(tmp_path):
  command = [sys.executable, "experiments/run.py", "--task=quadratic", "--algo=fedavg", "--quiet",
             "--num_clients=1000000", "--clients_per_round=1000", "--total_rounds=30",
             f"--root_output_dir={tmp_path}", "--experiment_name=wide"]  # fmt: skip
  code, seen = watched(command, 0.5)
  assert code == 0
  peak = max(look["memory"] for look in seen)
  with open(tmp_path / "wide" / "metrics.csv", newline="") as file:
    took = [float(row["seconds/train"]) for row in csv.DictReader(file)]
  print(f"\n{np.median(took):.2f} s a round, {peak:.0f} MiB at most")
  assert peak < 3 * 1024
