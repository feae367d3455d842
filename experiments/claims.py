#!/usr/bin/env python3
"""Tries the papers' claims on real data that two cores can hold, and writes what was seen.

    python experiments/claims.py --data_dir=DIR       # all of them
    python experiments/claims.py tau stages           # some; --list names them
    python experiments/claims.py --quick              # two of them, a tenth of the rounds: does it work?

Learning rates are tuned on the same grid for every method with one seed, and judged on other seeds; grids,
rounds and seeds are in experiments/claiming/. Every run is an ordinary run folder, so the same command goes
on where it was interrupted. Writes RESULTS.md and its figures.
"""

import argparse
import os
import sys

if not __package__:  # run as a script: import from the project's root, not from this folder
  sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main(argv: list[str]) -> int:
  """Runs what is not there yet, judges, writes."""
  parser = argparse.ArgumentParser(
    prog="claims.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("claims", nargs="*", metavar="CLAIM", help="which; default: all")
  parser.add_argument("--data_dir", help="the data sets' folder; without it only what needs none")
  parser.add_argument("--root_output_dir", default="runs/claims", help="where the runs are")
  parser.add_argument(
    "--output",
    help="the page to write; default: experiments/RESULTS.md for all claims, else beside the runs",
  )
  parser.add_argument("--jobs", type=int, default=2, help="runs at once (2)")
  parser.add_argument("--quick", action="store_true", help="two claims, a tenth of the rounds")
  parser.add_argument("--list", action="store_true", help="name the claims, and stop")
  asked = parser.parse_args(argv)
  from experiments.claim_trials import protocol, registry
  from experiments.cli import errors
  from experiments.cli.errors import UserError

  if asked.list:
    print("\n".join(f"{c.name:18} {c.source:40} {c.statement}" for c in registry.CLAIMS.values()))
    return 0
  try:
    for name in asked.claims:
      errors.check_name("--claim", name, registry.CLAIMS)
    if asked.jobs < 1:
      raise UserError(f"--jobs must be at least 1; found {asked.jobs}.")
    from experiments.claim_trials import trial

    return trial.run(asked)
  except UserError as error:
    errors.fail(str(error))
  except protocol.Interrupted:
    print("Interrupted; the same command goes on from here.")
    return 130


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
