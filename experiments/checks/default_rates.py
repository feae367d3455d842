"""Trains every algorithm with its default hyperparameters and compares its progress with FedAvg's.

    python -m experiments.checks.default_rates --data_dir=DIR            # all tasks: hours on two cores
    python -m experiments.checks.default_rates --task=digits             # one task: two minutes
    python -m experiments.checks.default_rates --data_dir=DIR --finished # the table of what has run so far

Progress is the gain in accuracy over guessing, or the reduction of the loss where accuracy grows too slowly,
both as the mean over the last quarter of the rounds. The runs are ordinary sweeps, so the same command
continues where it was interrupted. Their cells replace those in the table of docs/default_rates.md; the other
cells stay, so that the table can be made task by task, on several machines.

Momentum with β = 0.9 remembers about ten rounds, and is that late where gradients grow. So most trials have
thirty rounds or more, with small cohorts to fit two cores. docs/default_rates.md says how the choice matters.
"""

import argparse
import math
import pathlib
import subprocess
import sys
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np

from experiments.runs import reader
from tff_momentum.registry import ALGORITHMS

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "default_rates.md"
BEGIN, END = "<!-- default rates -->", "<!-- /default rates -->"
AT_LEAST = 0.8  # of FedAvg's progress
# FedSGD takes one step per round and FedAvg K, which is 4 on digits: it trains for as many times more rounds.
# Autonomous methods train two cohorts at a time, so they take two server steps in the time of a round.
MORE_ROUNDS = {"fedsgd": 4, "autofedavg": 2, "autofedgm": 2, "autofedgm_staged": 2}


class Trial(NamedTuple):
  """A short training on one task.

  Attributes:
    rounds: the number of rounds.
    flags: what else differs from the task's defaults, to fit two cores.
    column: the column of metrics.csv that shows progress.
    before: its value before training: guessing, or the loss of a uniform prediction.
    embedded: whether the task needs no data folder.
  """

  rounds: int
  flags: tuple[str, ...]
  column: str
  before: float
  embedded: bool = False


TRIALS = {
  "digits": Trial(30, (), "eval/accuracy", 0.1, embedded=True),
  "emnist_digits": Trial(40, ("--eval_examples=500", "--rounds_per_eval=4"), "eval/accuracy", 0.1),
  "shakespeare": Trial(
    10, ("--eval_examples=200", "--rounds_per_eval=2"), "eval/loss", math.log(90)
  ),
  "stackoverflow": Trial(
    60,
    ("--clients_per_round=2", "--eval_examples=200", "--rounds_per_eval=5"),
    "eval/loss",
    math.log(10_004),
  ),
  "cifar10_dirichlet": Trial(
    60,
    ("--alpha=10", "--clients_per_round=5", "--eval_examples=500", "--rounds_per_eval=3"),
    "eval/loss",
    math.log(10),
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
  parser.add_argument("--finished", action="store_true", help="run nothing; show finished runs")
  arguments = parser.parse_args(argv)
  algos = list(dict.fromkeys(["fedavg", *(arguments.algo or ALGORITHMS)]))
  chosen = arguments.task or [t for t in TRIALS if arguments.data_dir or TRIALS[t].embedded]
  for task in [] if arguments.finished else chosen:
    run(task, algos, arguments.root_output_dir, arguments.jobs, arguments.data_dir)
  found = {task: progress(task, algos, arguments.root_output_dir) for task in chosen}
  print(markdown({task: cells(shares) for task, shares in found.items()}, algos))
  if PAGE.exists():
    write(found)
  worst = [
    f"{algo} on {task}"
    for task, shares in found.items()
    for algo, share in shares.items()
    if share is not None and not share >= AT_LEAST
  ]
  if worst:
    print(f"Below {AT_LEAST:g} of FedAvg's progress: {', '.join(worst)}.")
  missing = sum(share is None for shares in found.values() for share in shares.values())
  if missing:
    print(f"{missing} runs are missing. The same command without --finished continues.")
  return 1 if worst or missing else 0


def run(task: str, algos: list[str], root: str, jobs: int, data_dir: str | None = None) -> None:
  """Trains the algorithms on the task, each with its default hyperparameters."""
  trial = TRIALS[task]
  # Nothing is tuned here, so all clients train. A diverged run is in the table, and raises nothing.
  command = [sys.executable, "experiments/sweep.py", f"--task={task}", "--tune_on=test", "--lean"]
  command += [f"--jobs={jobs}", "--seeds=1", f"--root_output_dir={root}", *trial.flags]
  command += [f"--data_dir={data_dir}"] if data_dir and not trial.embedded else []
  for more in sorted({_more(algo) for algo in algos}):
    same = [f"--algo={algo}" for algo in algos if _more(algo) == more]
    flags = [f"--sweep_name={_sweep(task, more)}", f"--total_rounds={more * trial.rounds}"]
    subprocess.run([*command, *flags, *same], cwd=ROOT, stdout=sys.stderr, check=False)


def progress(task: str, algos: list[str], root: str) -> dict[str, float | None]:
  """Each algorithm's progress as a fraction of FedAvg's; NaN if it diverged, None if it has not run."""
  base = _gain(ROOT / root, task, "fedavg")
  gains = {algo: _gain(ROOT / root, task, algo) for algo in algos}
  return {
    algo: None if gain is None or base is None else gain / base for algo, gain in gains.items()
  }


def _more(algo: str) -> int:
  return MORE_ROUNDS.get(algo, 1)


def _sweep(task: str, more: int) -> str:
  return task if more == 1 else f"{task}_{more}x"


def _gain(root: pathlib.Path, task: str, algo: str) -> float | None:
  trial, rounds = TRIALS[task], _more(algo) * TRIALS[task].rounds
  folder = root / _sweep(task, _more(algo)) / f"{algo}-seed=1"
  if not (folder / "summary.json").exists():
    return None
  metrics = reader.read_metrics(folder / "metrics.csv")
  if metrics["round"][-1] < rounds:  # it diverged
    return math.nan
  last = float(np.nanmean(metrics[trial.column][metrics["round"] > 3 / 4 * rounds]))
  return trial.before - last if trial.column == "eval/loss" else last - trial.before


def markdown(table: Mapping[str, Mapping[str, str]], algos: Sequence[str]) -> str:
  """The table of cells by task and algorithm; – stands for a missing cell."""
  shown = [task for task in TRIALS if task in table]
  lines = ["| algorithm | " + " | ".join(shown) + " |", "|---" * (len(shown) + 1) + "|"]
  for algo in algos:
    more = f" ({_more(algo)} × the rounds)" if _more(algo) > 1 else ""
    row = " | ".join(table[task].get(algo, "–") for task in shown)
    lines.append(f"| `{algo}`{more} | {row} |")
  return "\n".join(lines)


def read_table(text: str) -> dict[str, dict[str, str]]:
  """The cells of a table that `markdown` wrote, by task and algorithm."""
  rows = [line.strip("| ").split(" | ") for line in text.splitlines() if line.startswith("| ")]
  if not rows:
    return {}
  header, *body = rows
  return {
    task: {row[0].split("`")[1]: row[number] for row in body if row[number] != "–"}
    for number, task in enumerate(header[1:], 1)
  }


def cells(shares: Mapping[str, float | None]) -> dict[str, str]:
  """The progress of the runs that have finished, as the table shows it."""
  return {
    algo: "diverged" if math.isnan(share) else f"{share:.2f}"
    for algo, share in shares.items()
    if share is not None
  }


def write(found: Mapping[str, Mapping[str, float | None]]) -> None:
  """Replaces the cells of these runs in the page's table."""
  text = PAGE.read_text(encoding="utf-8")
  before, _, rest = text.partition(BEGIN)
  old, _, after = rest.partition(END)
  table = read_table(old)
  for task, shares in found.items():
    table[task] = {**table.get(task, {}), **cells(shares)}
  new = markdown(table, list(dict.fromkeys(["fedavg", *ALGORITHMS])))
  PAGE.write_text(f"{before}{BEGIN}\n{new}\n{END}{after}", encoding="utf-8")


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
