#!/usr/bin/env python3
"""Compares runs in one HTML page, with figures and tables for a paper.

    python experiments/report.py runs --output=report

Takes run folders, or folders that contain them. Writes index.html (self-contained), figures/*.png and *.svg,
tables/*.md and *.tex. Does not need TensorFlow.
"""

import argparse
import os
import sys

if not __package__:  # run as a script: import from the project's root, not from this folder
  sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from experiments.cli.errors import OneSentenceParser


def main(argv: list[str]) -> int:
  """Writes the report; returns 2 if no run is usable."""
  parser = OneSentenceParser(
    prog="report.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument(
    "runs", nargs="+", metavar="RUNS", help="run folders, or folders that contain them"
  )
  parser.add_argument(
    "--output", default="report", metavar="DIR", help="the output folder (report)"
  )
  arguments = parser.parse_args(argv)
  # Imports that take time come after the flags are parsed.
  from experiments.reports import comparison
  from experiments.runs import reader

  found, problems = reader.read_all(arguments.runs)
  settings, repeated = comparison.compare(found)
  problems += repeated
  if not settings:
    reasons = " ".join(problems)
    print(f"report.py: expected at least one finished run; found none: {reasons}", file=sys.stderr)
    return 2
  for problem in problems:
    print(f"report.py: {problem}", file=sys.stderr)
  from experiments.reports import writer

  try:
    written = writer.write(arguments.output, settings, problems)
  except OSError as error:
    print(f"report.py: --output must be a writable folder; {error}.", file=sys.stderr)
    return 2
  print(written)
  return 0


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
