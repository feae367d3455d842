"""Long and wide runs, in real processes: memory, round time, threads, files and processes stay flat."""

import contextlib
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

from tests import ROOT

matplotlib.use("Agg")
SETTLED, ROUNDS = 500, 5000
STARTS = range(SETTLED, ROUNDS, SETTLED)
PARTS = ("store", "data", "train")  # the parts of a round's time, without evaluation
OLD_TURN, YOUNG_TURN = 1.0, 0.5  # seconds


def look_at(process: psutil.Process, metrics: pathlib.Path) -> dict[str, float]:
  """The resources that a run uses now, and its number of rounds so far."""
  with process.oneshot():
    return {
      "round": metrics.read_bytes().count(b"\n") - 1 if metrics.exists() else -1,
      "memory": process.memory_info().rss / 2**20,
      "threads": process.num_threads(),
      "files": process.num_fds(),
      "processes": len(process.children(recursive=True)),
    }


def start(*flags: str) -> psutil.Popen:
  command = [sys.executable, "experiments/run.py", "--quiet", *flags]
  return psutil.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)


def seconds_of_rounds(metrics: pathlib.Path, parts: tuple[str, ...] = PARTS) -> np.ndarray:
  with open(metrics, newline="") as file:
    return np.array(
      [sum(float(row[f"seconds/{p}"]) for p in parts) for row in csv.DictReader(file)]
    )


@pytest.mark.slow
def test_five_thousand_rounds_do_not_grow_in_time_or_memory(tmp_path):
  """A second, younger run alternates with it, so that noise on the machine affects both equally."""
  old, young = (
    start("--task=digits", "--algo=scaffold", "--client_steps_per_round=5", f"--total_rounds={ROUNDS}",
          "--rounds_per_eval=100", "--rounds_per_checkpoint=250", f"--root_output_dir={tmp_path}",
          f"--experiment_name={name}") for name in ("old", "young")
  )  # fmt: skip
  metrics = {name: tmp_path / name / "metrics.csv" for name in ("old", "young")}
  seen = []
  try:
    while old.poll() is None:
      for runs, waits, seconds in ((old, young, OLD_TURN), (young, old, YOUNG_TURN)):
        waits.suspend()
        runs.resume()
        time.sleep(seconds)
      young_rounds = look_at(young, metrics["young"])["round"]
      seen.append({**look_at(old, metrics["old"]), "young": young_rounds})
      old.resume()
  except psutil.NoSuchProcess:
    pass  # it ended during the measurement
  finally:
    young.kill()
    code = old.wait()
  assert code == 0
  took, young_took = (1e3 * seconds_of_rounds(path) for path in metrics.values())
  settled = [look for look in seen if SETTLED <= look["round"] < ROUNDS]
  times = [np.median(took[t : t + SETTLED]) for t in STARTS]
  others = [np.median(young_took[slice(*young_span(seen, t, t + SETTLED))]) for t in STARTS]
  ratios = np.array(times) / others
  if path := os.environ.get("TFM_SOAK_PLOT"):
    plot(took, seen, ratios, path)
  print(f"\nms a round, each {SETTLED}: {np.round(times, 1)}")
  print(
    f"of the younger run: {np.round(others, 1)}; it did {young_span(seen, 0, ROUNDS)[1]} rounds"
  )
  print(f"ratio: {np.round(ratios, 3)}")
  memory = [look["memory"] for look in settled]
  print(f"MiB after round {SETTLED}: {memory[0]:.0f}, at most {max(memory):.0f} later")
  assert max(memory) < 1.05 * memory[0]
  assert ratios.max() < 1.05
  assert ratios[-1] < 1.05 * ratios[0]
  tenth = len(settled) // 10
  for name in ("threads", "files", "processes"):
    # A round uses threads and files briefly; the minimum over many samples is what remains.
    early, late = ([k[name] for k in part] for part in (settled[:tenth], settled[-tenth:]))
    print(
      f"{name}: {min(early)} ({np.mean(early):.1f} on average), then {min(late)} ({np.mean(late):.1f})"
    )
    assert min(late) <= min(early), name


def young_span(seen: list[dict[str, float]], begin: int, end: int) -> tuple[int, int]:
  """The rounds of the younger run while the older one was between `begin` and `end`."""
  looks = [int(look["young"]) for look in seen if begin <= look["round"] < end]
  return looks[0], looks[-1]


def plot(took: np.ndarray, seen: list[dict[str, float]], ratios: np.ndarray, path: str) -> None:
  """Plots memory and round time against rounds, with a band of 5 % from round 500."""
  figure, axes = plt.subplots(3, 1, figsize=(7, 7), sharex=True)
  looks = [look for look in seen if 0 < look["round"] < ROUNDS]
  axes[0].plot([k["round"] for k in looks], [k["memory"] for k in looks])
  axes[0].set_ylabel("memory, MiB")
  axes[1].plot(
    np.arange(25, ROUNDS, 50), [np.median(took[t : t + 50]) for t in range(0, ROUNDS, 50)]
  )
  axes[1].set_ylabel("ms a round,\nmedian of 50")
  axes[2].plot([t + SETTLED / 2 for t in STARTS], ratios, "o-")
  axes[2].set_ylabel("time of a round as a share\nof the younger run’s")
  axes[2].set_xlabel("round")
  memory = next(k["memory"] for k in looks if k["round"] >= SETTLED)
  for axis, level in ((axes[0], memory), (axes[2], 1.0)):
    axis.fill_between([SETTLED, ROUNDS], 0.95 * level, 1.05 * level, alpha=0.15, label="±5 %")
    axis.legend(loc="lower right")
  for axis in axes:
    axis.set_ylim(0, 1.15 * axis.get_ylim()[1])
  figure.tight_layout()
  figure.savefig(path, dpi=100)


@pytest.mark.slow
def test_a_million_clients_a_thousand_a_round(tmp_path):
  metrics = tmp_path / "wide" / "metrics.csv"
  run = start("--task=quadratic", "--algo=fedavg", "--num_clients=1000000", "--clients_per_round=1000",
              "--total_rounds=30", f"--root_output_dir={tmp_path}", "--experiment_name=wide")  # fmt: skip
  peak = 0.0
  while run.poll() is None:
    with contextlib.suppress(psutil.Error):
      peak = max(peak, look_at(run, metrics)["memory"])
    time.sleep(0.5)
  assert run.wait() == 0
  print(
    f"\n{np.median(seconds_of_rounds(metrics, ('train',))):.2f} s a round, {peak:.0f} MiB at most"
  )
  assert peak < 3 * 1024
