#!/usr/bin/env python3
"""Runs one algorithm or several over grids of values and seeds, or all presets of a paper's table.

    python experiments/sweep.py --task=digits --algo=fedavg --algo=fedavgm \\
      --grid client_learning_rate=0.1,0.05 --grid fedavgm:beta=0.9,0.99 --seeds=1,2,3 --jobs=2
    python experiments/sweep.py --preset=ghbm/table1 --scale=0.05

Every cell is an ordinary run in a folder of its own, so the same command continues an interrupted sweep: what
is complete is not run again. One failed or diverged cell is recorded and stops nothing. The results are in
sweep.json, sweep.csv and sweep.md. All flags of run.py hold for every cell.
"""

import os
import signal
import sys

# The project's root takes the place of this folder, whose names would hide others'.
if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
  del sys.path[0]
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from absl import flags

from experiments.cli import errors
from experiments.cli import flags as settings
from experiments.cli.errors import UserError
from experiments.sweeps import driver, halving, processes, request
from experiments.sweeps.cells import Cell, cells_of


def main(argv: list[str]) -> None:
  """Checks every name before anything starts."""
  settings.define_flags()
  request.define_flags()
  try:
    request.parse(argv)
    if flags.FLAGS["help"].value:
      signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` is no error
      print(f"{__doc__}\n{request.help_text()}\nFlags of run.py:\n{settings.help_text()}")
      return
    asked = request.from_flags()
    cells = cells_of(asked.entries)
    budgets = rungs(asked, cells)
    if asked.dry_run:
      print(driver.commands(cells, asked.folder))
      return
    sys.exit(run(asked, cells, budgets))
  except UserError as error:
    errors.fail(str(error))


def rungs(asked: request.Request, cells: list[Cell]) -> list[int | None]:
  """The rounds of each rung: one rung to the end, or those of halving."""
  rounds = {flag for cell in cells for flag in cell.flags if flag.startswith("--total_rounds=")}
  if asked.halving is None:
    return [int(rounds.pop().partition("=")[2])] if _all_the_same(rounds, cells) else [None]
  if not _all_the_same(rounds, cells):
    raise UserError(
      "--halving needs to know the rounds of a full run, the same for all cells; give --total_rounds."
    )
  labels = {cell.label for cell in cells}
  most = max(len({c.configuration for c in cells if c.label == label}) for label in labels)
  return list(halving.rungs(int(rounds.pop().partition("=")[2]), most, asked.halving))


def run(asked: request.Request, cells: list[Cell], budgets: list[int | None]) -> int:
  """Runs the sweep; returns the exit code."""
  pool = _pool(asked)
  try:
    sweep = driver.Sweep(
      asked.folder, cells, pool, asked.metric, asked.remarks, quiet=flags.FLAGS.quiet
    )
    finished = sweep.run(budgets, asked.halving or 1)
  finally:
    pool.close()
  if not finished:
    print("Interrupted; the same command goes on from here.")
    return 130
  failed = [cell for cell in cells if sweep.outcomes[cell.name].state == "failed"]
  if failed:
    first = failed[0]
    print(
      f"{len(failed)} of {len(cells)} cells failed; {first.name}: {sweep.outcomes[first.name].reason}"
    )
  if asked.scale:
    print(f"A try-out at scale {asked.scale}: these are not the full experiment's results.")
  print(
    f"Everything is in {asked.folder}: sweep.md, sweep.csv, sweep.json, and a folder for each cell."
  )
  return 1 if failed else 0


def _pool(asked: request.Request) -> processes.LocalPool:
  if asked.ray is None:
    return processes.LocalPool(asked.jobs)
  from experiments.sweeps.ray_pool import RayPool

  return RayPool(  # type: ignore[return-value]
    asked.ray, num_cpus=flags.FLAGS.cpus_per_run, num_gpus=flags.FLAGS.gpus_per_run
  )


def _all_the_same(rounds: set[str], cells: list[Cell]) -> bool:
  return len(rounds) == 1 and all(rounds & set(cell.flags) for cell in cells)


if __name__ == "__main__":
  main(sys.argv)
