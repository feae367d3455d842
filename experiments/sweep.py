#!/usr/bin/env python3
"""Runs algorithms over grids of values and seeds, or all presets of a paper's table.

    python experiments/sweep.py --task=digits --algo=fedavg --algo=fedavgm \\
      --grid client_learning_rate=0.1,0.05 --grid fedavgm:beta=0.9,0.99 --seeds=1,2,3 --jobs=2
    python experiments/sweep.py --preset=ghbm/table1 --scale=0.05

Each run has its own ordinary run folder, so the same command continues an interrupted sweep without repeating
complete runs. A failed or diverged run is recorded and does not stop the others. Results are written to
sweep.json, sweep.csv and sweep.md. All flags of run.py are accepted and apply to every run.
"""

import os
import signal
import sys

if not __package__:  # run as a script: import from the project's root, not from this folder
  sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from absl import flags

from experiments.cli import errors
from experiments.cli import flags as cli_flags
from experiments.cli.errors import UserError
from experiments.sweeps import check_runs, halving, local_pool, scheduler, sweep_config
from experiments.sweeps.pool import Pool
from experiments.sweeps.search_space import SweepRun, runs_of


def main(argv: list[str]) -> None:
  """Checks all flags, then runs the sweep."""
  cli_flags.define_flags()
  sweep_config.define_flags()
  try:
    cli_flags.parse(argv)
    if flags.FLAGS["help"].value:
      signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` closes the pipe early
      print(f"{__doc__}\n{sweep_config.help_text()}\nFlags of run.py:\n{cli_flags.help_text()}")
      return
    config = sweep_config.from_flags()
    runs = runs_of(config.spaces)
    budgets = rungs(config, runs)
    if config.shard is not None:
      first, step = config.shard
      runs = runs[first - 1 :: step]
    check_runs.check(runs, thoroughly=not config.dry_run)
    if config.dry_run:
      print(scheduler.commands(runs, config.folder))
      return
    sys.exit(run(config, runs, budgets))
  except UserError as error:
    errors.fail(str(error))


def rungs(config: sweep_config.SweepConfig, runs: list[SweepRun]) -> list[int | None]:
  """The rounds of each rung: one rung to the end, or the rungs of successive halving."""
  rounds = {flag for run in runs for flag in run.flags if flag.startswith("--total_rounds=")}
  if config.halving is None:
    return [int(rounds.pop().partition("=")[2])] if _all_the_same(rounds, runs) else [None]
  if not _all_the_same(rounds, runs):
    raise UserError("--halving needs the same number of rounds for all runs; give --total_rounds.")
  labels = {run.label for run in runs}
  most = max(len({c.configuration for c in runs if c.label == label}) for label in labels)
  return list(halving.rungs(int(rounds.pop().partition("=")[2]), most, config.halving))


def run(config: sweep_config.SweepConfig, runs: list[SweepRun], budgets: list[int | None]) -> int:
  """Runs the sweep; returns the exit code."""
  pool = _pool(config)
  try:
    sweep = scheduler.Sweep(
      config.folder,
      runs,
      pool,
      config.metric,
      config.remarks,
      quiet=flags.FLAGS.quiet,
      shard=config.shard,
    )
    finished = sweep.run(budgets, config.halving or 1)
  finally:
    pool.close()
  if not finished:
    print("Interrupted; run the same command to continue.")
    return 130
  failed = [run for run in runs if sweep.outcomes[run.name].state == "failed"]
  if failed:
    first = failed[0]
    print(
      f"{len(failed)} of {len(runs)} runs failed; {first.name}: {sweep.outcomes[first.name].reason}"
    )
  if config.scale:
    print(f"Scaled down to {config.scale}: these are not the results of the full experiment.")
  if config.shard is not None:
    print(
      f"Shard {flags.FLAGS.shard} is done; the same command without --shard writes the tables of all runs."
    )
  else:
    print(
      f"Results are in {config.folder}: sweep.md, sweep.csv, sweep.json, and a folder for each run."
    )
  return 1 if failed else 0


def _pool(config: sweep_config.SweepConfig) -> Pool:
  if config.ray is None:
    return local_pool.LocalPool(config.jobs)
  from experiments.sweeps.ray_pool import RayPool

  return RayPool(config.ray, num_cpus=flags.FLAGS.cpus_per_run, num_gpus=flags.FLAGS.gpus_per_run)


def _all_the_same(rounds: set[str], runs: list[SweepRun]) -> bool:
  return len(rounds) == 1 and all(rounds & set(run.flags) for run in runs)


if __name__ == "__main__":
  main(sys.argv)
