"""Long and wide runs, in real processes: memory, round time, threads, files and processes stay flat."""

import csv
import os
import pathlib
import subprocess
import sys
import time

import matplotlib
import matplotlib.pyplot as plt
import numpy as np
import psutil
import pytest

matplotlib.use("Agg")
ROOT = pathlib.Path(__file__).resolve().parent.parent
SETTLED, ROUNDS = 500, 5000
STARTS = range(SETTLED, ROUNDS, SETTLED)
PARTS = ("store", "data", "train")  # of a round; evaluations are left out


def watched(
  command: list[str], seconds: float, metrics: pathlib.Path
) -> tuple[int, list[dict[str, float]]]:
  """Runs a command that writes `metrics`, and looks at it now and then.

  Returns its exit code, and what was seen, each time with the number of rounds that were done.
  """
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
            "round": metrics.read_bytes().count(b"\n") - 1 if metrics.exists() else -1,
            "memory": seer.memory_info().rss / 2**20,
            "cpu": sum(seer.cpu_times()[:2]),
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
  metrics = tmp_path / "soak" / "metrics.csv"
  code, seen = watched(command, 0.5, metrics)
  assert code == 0
  with open(metrics, newline="") as file:
    rows = list(csv.DictReader(file))
  took = 1e3 * np.array([sum(float(row[f"seconds/{p}"]) for p in PARTS) for row in rows])
  if path := os.environ.get("TFM_SOAK_PLOT"):
    plot(took, seen, path)
  times = [np.median(took[t : t + SETTLED]) for t in STARTS]
  settled = [look for look in seen if SETTLED <= look["round"] < ROUNDS]
  print(f"\nms a round, each {SETTLED}: {[round(float(m), 1) for m in times]}")
  print(f"ms of CPU: {[round(1e3 * cpu_a_round(seen, t, t + SETTLED), 1) for t in STARTS]}")
  memory = [look["memory"] for look in settled]
  print(f"MiB after round {SETTLED}: {memory[0]:.0f}, at most {max(memory):.0f} later")
  assert times[-1] < 1.05 * times[0]
  assert max(memory) < 1.05 * memory[0]
  tenth = len(settled) // 10
  for name in ("threads", "files", "processes"):
    # A round has threads and files of its own for a moment, so that single looks differ.
    early, late = (np.mean([k[name] for k in p]) for p in (settled[:tenth], settled[-tenth:]))
    print(f"{name}: {early:.1f} on average, then {late:.1f}")
    assert late < early + 1, name


def cpu_a_round(seen: list[dict[str, float]], begin: int, end: int) -> float:
  """Seconds of processor time that a round took, all threads together: hardly disturbed by others."""
  looks = [look for look in seen if begin <= look["round"] < end]
  return (looks[-1]["cpu"] - looks[0]["cpu"]) / (looks[-1]["round"] - looks[0]["round"])


def plot(took: np.ndarray, seen: list[dict[str, float]], path: str) -> None:
  """Draws memory and round time against rounds, each with the band of 5 % from round 500 on."""
  figure, axes = plt.subplots(2, 1, figsize=(7, 5), sharex=True)
  looks = [look for look in seen if 0 < look["round"] < ROUNDS]
  rounds, memory = [k["round"] for k in looks], [k["memory"] for k in looks]
  blocks = [np.median(took[t : t + 50]) for t in range(0, ROUNDS, 50)]
  levels = (
    next(k["memory"] for k in looks if k["round"] >= SETTLED),
    np.median(took[SETTLED : 2 * SETTLED]),
  )
  axes[0].plot(rounds, memory)
  axes[1].plot(np.arange(25, ROUNDS, 50), blocks, label="time, median of 50 rounds")
  cpu = [1e3 * cpu_a_round(seen, t, t + SETTLED) for t in STARTS]
  axes[1].plot([t + SETTLED / 2 for t in STARTS], cpu, ".", label="processor time, all threads")
  labels = ("memory, MiB", "ms a round")
  for axis, level, label in zip(axes, levels, labels, strict=True):
    axis.fill_between([SETTLED, ROUNDS], 0.95 * level, 1.05 * level, alpha=0.15, label="±5 %")
    axis.set_ylabel(label)
    axis.set_ylim(bottom=0)
    axis.legend(loc="lower right")
  axes[1].set_xlabel("round")
  figure.tight_layout()
  figure.savefig(path, dpi=100)


@pytest.mark.slow
def test_a_million_clients_a_thousand_a_round(tmp_path):
  command = [sys.executable, "experiments/run.py", "--task=quadratic", "--algo=fedavg", "--quiet",
             "--num_clients=1000000", "--clients_per_round=1000", "--total_rounds=30",
             f"--root_output_dir={tmp_path}", "--experiment_name=wide"]  # fmt: skip
  code, seen = watched(command, 0.5, tmp_path / "wide" / "metrics.csv")
  assert code == 0
  peak = max(look["memory"] for look in seen)
  with open(tmp_path / "wide" / "metrics.csv", newline="") as file:
    took = [float(row["seconds/train"]) for row in csv.DictReader(file)]
  print(f"\n{np.median(took):.2f} s a round, {peak:.0f} MiB at most")
  assert peak < 3 * 1024
