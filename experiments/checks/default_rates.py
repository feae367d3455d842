"""Trains every algorithm with its default hyperparameters and compares its progress with FedAvg's.

    python -m experiments.checks.default_rates --data_dir=DIR            # all tasks: hours on two cores
    python -m experiments.checks.default_rates --task=digits             # one task: two minutes

Progress is the gain in accuracy over guessing, or the reduction of the loss where accuracy grows too slowly,
both as the mean of the last five evaluations. The runs are an ordinary sweep, so the same command continues
where it was interrupted. The table replaces the one in docs/default_rates.md.
"""

import argparse
import math
import pathlib
import subprocess
import sys
from typing import NamedTuple

import numpy as np

from experiments.runs import reader
from tff_momentum.registry import ALGORITHMS

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "default_rates.md"
BEGIN, END = "<!-- default rates -->", "<!-- /default rates -->"
AT_LEAST = 0.8  # of FedAvg's progress
LAST_EVALUATIONS = 5


class Trial(NamedTuple):
  """A short training on one task.

  Attributes:
    flags: what differs from the task's defaults, to fit two cores.
    column: the column of metrics.csv that shows progress.
    before: its value before training: guessing, or the loss of a uniform prediction.
    embedded: whether the task needs no data folder.
  """

  flags: tuple[str, ...]
  column: str
  before: float
  embedded: bool = False


TRIALS = {
  "digits": Trial(("--total_rounds=30",), "eval/accuracy", 0.1, embedded=True),
  "emnist_digits": Trial(("--total_rounds=25", "--eval_examples=1000"), "eval/accuracy", 0.1),
  "shakespeare": Trial(("--total_rounds=10", "--eval_examples=1000"), "eval/loss", math.log(90)),
  "stackoverflow": Trial(
    ("--total_rounds=20", "--clients_per_round=10", "--eval_examples=1000"),
    "eval/loss",
    math.log(10_004),
  ),
  "cifar10_dirichlet": Trial(
    ("--total_rounds=40", "--eval_examples=500"), "eval/loss", math.log(10)
  ),
}


def main(argv: list[str]) -> int:
  """Runs what is missing, prints the table, and writes it to the docs."""
  parser = argparse.ArgumentParser(prog="default_rates", description=__doc__.splitlines()[0])
  parser.add_argument(
    "--data_dir", help="folder with the data sets; without it, embedded data only"
  )
  parser.add_argument("--task", action="append", choices=sorted(TRIALS), help="default: all")
  parser.add_argument("--algo", action="append", choices=list(ALGORITHMS), help="default: all")
  parser.add_argument("--jobs", type=int, default=2, help="number of runs at the same time (2)")
  parser.add_argument("--root_output_dir", default="runs/default_rates", help="folder of the runs")
  arguments = parser.parse_args(argv)
  algos = list(dict.fromkeys(["fedavg", *(arguments.algo or ALGORITHMS)]))
  chosen = arguments.task or [t for t in TRIALS if arguments.data_dir or TRIALS[t].embedded]
  found = {
    task: train(task, algos, arguments.root_output_dir, arguments.jobs, arguments.data_dir)
    for task in chosen
  }
  table = markdown(found)
  print(table)
  if set(algos) == set(ALGORITHMS) and PAGE.exists():
    _write(table)
  worst = [
    f"{a} on {t}" for t, all_of in found.items() for a, p in all_of.items() if not p >= AT_LEAST
  ]
  if worst:
    print(f"Below {AT_LEAST:g} of FedAvg's progress: {', '.join(worst)}.")
  return 1 if worst else 0


def train(
  task: str, algos: list[str], root: str, jobs: int, data_dir: str | None = None
) -> dict[str, float]:
  """Trains the algorithms and returns each one's progress as a fraction of FedAvg's; NaN if it failed."""
  trial = TRIALS[task]
  # Nothing is tuned here, so all clients train. A diverged run is in the table, and raises nothing.
  command = [sys.executable, "experiments/sweep.py", f"--task={task}", "--tune_on=test", "--lean"]
  command += [f"--jobs={jobs}", "--seeds=1", *(f"--algo={algo}" for algo in algos)]
  command += [f"--root_output_dir={root}", f"--sweep_name={task}", *trial.flags]
  command += [f"--data_dir={data_dir}"] if data_dir and not trial.embedded else []
  subprocess.run(command, cwd=ROOT, stdout=sys.stderr, check=False)
  gains = {algo: _gain(ROOT / root / task, algo, trial) for algo in algos}
  return {algo: gain / gains["fedavg"] for algo, gain in gains.items()}


def _gain(folder: pathlib.Path, algo: str, trial: Trial) -> float:
  path = folder / f"{algo}-seed=1" / "metrics.csv"
  if not path.exists():
    return math.nan
  values = reader.read_metrics(path)[trial.column]
  last = float(np.mean(values[~np.isnan(values)][-LAST_EVALUATIONS:]))
  return trial.before - last if trial.column == "eval/loss" else last - trial.before


def markdown(found: dict[str, dict[str, float]]) -> str:
  """The progress of every algorithm on every task as a table."""
  lines = ["| algorithm | " + " | ".join(found) + " |", "|---" * (len(found) + 1) + "|"]
  for algo in next(iter(found.values())):
    cells = [f"{all_of[algo]:.2f}" for all_of in found.values()]
    lines.append(f"| `{algo}` | " + " | ".join(cells) + " |")
  return "\n".join(lines)


def _write(table: str) -> None:
  text = PAGE.read_text(encoding="utf-8")
  before, _, rest = text.partition(BEGIN)
  _, _, after = rest.partition(END)
  PAGE.write_text(f"{before}{BEGIN}\n{table}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
