#!/usr/bin/env python3
"""Tests the papers' claims on experiments that fit on two CPU cores, and writes RESULTS.md.

    python experiments/claims.py tau stages                 # some claims; --list shows the names
    python experiments/claims.py --all --data_dir=DIR       # all of them: 6 hours on two cores
    python experiments/claims.py --quick                    # smoke test: one claim, a tenth of the rounds

Learning rates are tuned with one seed, on the same grid for every method, and evaluated with other seeds;
grids, rounds and seeds are in experiments/claim_trials/. Each run has its own ordinary run folder, so the
same command continues an interrupted session. Writes RESULTS.md and its figures; sections of claims that were
not tested now stay as they are.

    python experiments/claims.py tau --archive=experiments/results/runs --output=experiments/RESULTS.md

takes the finished runs of the repository instead of repeating them, adds new ones, and updates one section.
"""

import argparse
import json
import os
import pathlib
import sys

if not __package__:  # run as a script: import from the project's root, not from this folder
  sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from experiments.cli import errors, flags
from experiments.cli.errors import OneSentenceParser, UserError
from tasks.data import folders

RESULTS = pathlib.Path(__file__).resolve().parent / "RESULTS.md"
QUICK_NOTE = "**A smoke test with a tenth of the rounds: these are not results.**"
FULL_NOTE = (
  "`python experiments/claims.py --all --data_dir=DIR` runs everything and continues where it was "
  "interrupted."
)


def main(argv: list[str]) -> int:
  """Runs the missing experiments, evaluates the claims and writes the page; returns the exit code."""
  arguments = parse(argv)
  # Imports that take time come after the flags are parsed.
  from experiments.claim_trials import registry, runner

  if arguments.list:
    print("\n".join(f"{c.name:18} {c.source:40} {c.statement}" for c in registry.CLAIMS.values()))
    return 0
  try:
    for name in arguments.claims:
      errors.check_name("--claim", name, registry.CLAIMS, see="claims.py --list")
    if not (arguments.claims or arguments.all or arguments.quick):
      raise UserError(
        "expected the names of claims, as in claims.py tau, or --all, which takes 6 hours on two cores; "
        "found neither. --list shows the names."
      )
    if arguments.claims and (arguments.all or arguments.quick):
      raise UserError("--all and --quick choose the claims themselves; give no names with them.")
    if arguments.data_dir is not None or os.environ.get(folders.VARIABLE):
      folders.check_given(arguments.data_dir)
      arguments.data_dir = str(folders.root(arguments.data_dir))
    if arguments.quick and arguments.archive:
      raise UserError(
        "--quick runs a smoke test, which belongs in no --archive; give one of the two."
      )
    if arguments.jobs < 1:
      raise UserError(f"--jobs must be at least 1; found {arguments.jobs}.")
    return run(arguments)
  except (UserError, folders.DataError) as error:
    errors.fail(str(error))
  except runner.Interrupted:
    print("Interrupted; run the same command to continue.")
    return 130


def parse(argv: list[str]) -> argparse.Namespace:
  """Parses the command line."""
  parser = OneSentenceParser(
    prog="claims.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("claims", nargs="*", metavar="CLAIM", help="claims to test")
  parser.add_argument("--all", action="store_true", help="test all claims; takes hours")
  parser.add_argument(
    "--data_dir",
    help="folder of the data sets; without it, only claims on embedded data are tested",
  )
  parser.add_argument("--root_output_dir", default="runs/claims", help="folder of the runs")
  parser.add_argument(
    "--output",
    help="the page to write (default: experiments/RESULTS.md for all claims, else RESULTS.md in the "
    "folder of the runs)",
  )
  parser.add_argument(
    "--archive",
    type=pathlib.Path,
    help="folder of finished runs to take instead of repeating them, and to add to "
    "(the evidence behind RESULTS.md is in experiments/results/runs)",
  )
  parser.add_argument("--jobs", type=int, default=2, help="number of runs at the same time (2)")
  parser.add_argument("--quick", action="store_true", help="one claim, a tenth of the rounds")
  parser.add_argument("--list", action="store_true", help="list the claims and exit")
  return parser.parse_args(argv)


def run(arguments: argparse.Namespace) -> int:
  """Runs the panels of all claims together, so that no run is repeated, and writes the page."""
  from experiments.claim_trials import registry, results_page, runner

  flags.define_flags()  # grids may vary them
  names = arguments.claims or (registry.QUICK if arguments.quick else list(registry.CLAIMS))
  chosen = [registry.CLAIMS[name] for name in names]
  claims = [claim for claim in chosen if arguments.data_dir or not claim.needs_data]
  for claim in chosen:
    if claim not in claims:
      print(f"{claim.name} needs real data: give --data_dir.")
  folder = pathlib.Path(arguments.root_output_dir)
  panels = [panel for claim in claims for panel in claim.panels]
  if arguments.quick:
    folder, panels = folder.with_name(folder.name + "_quick"), [runner.quick(p) for p in panels]
  results = runner.run(panels, folder, arguments.data_dir, arguments.jobs, arguments.archive)
  is_complete = not arguments.claims and not arguments.quick
  default = RESULTS if is_complete else folder / "RESULTS.md"
  page = pathlib.Path(arguments.output) if arguments.output else default
  missing = [] if arguments.quick else [c for c in registry.CLAIMS.values() if c not in claims]
  hours = {panel.setting.name: hours_of(folder, panel.setting.name) for panel in panels}
  note = QUICK_NOTE if arguments.quick else FULL_NOTE
  results_page.write(page, claims, missing, results, hours, note)
  print(f"Results are in {page} and in the folder of figures beside it.")
  return 0


def hours_of(folder: pathlib.Path, setting: str) -> float:
  """The time that a setting's runs spent on data, training, evaluation and diagnostics."""
  summaries = [json.loads(p.read_text()) for p in folder.glob(f"*/{setting}.*/summary.json")]
  seconds = [v for found in summaries for name, v in found.items() if name.startswith("seconds/")]
  return sum(seconds) / 3600


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
