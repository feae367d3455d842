#!/usr/bin/env python3
"""Compares runs: one HTML page, figures, and tables for a paper.

    python experiments/report.py runs --output=report

Takes run folders, or folders of them. Writes index.html (needs nothing beside it), figures/*.png and *.svg,
tables/*.md and *.tex. TensorFlow is not needed.
"""

import argparse
import os
import sys

if not __package__:  # run as a script: import from the project's root, not from this folder
  sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))


def main(argv: list[str]) -> int:
  """Writes the report; returns 2 if no run is usable."""
  parser = argparse.ArgumentParser(
    prog="report.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("runs", nargs="+", metavar="RUNS", help="a run folder, or a folder of them")
  parser.add_argument("--output", default="report", metavar="DIR", help="where to write (report)")
  arguments = parser.parse_args(argv)
  # Only now what takes time to import, so that a wrong flag is answered at once.
  from experiments.reports import comparison
  from experiments.runs import reader

  found, problems = reader.read_all(arguments.runs)
  settings, repeated = comparison.compare(found)
  problems += repeated
  for problem in problems:
    print(f"report.py: {problem}", file=sys.stderr)
  if not settings:
    print("report.py: there is no finished run to report on.", file=sys.stderr)
    return 2
  from experiments.reports import writer

  try:
    written = writer.write(arguments.output, settings, problems)
  except OSError as error:
    print(f"report.py: --output must be a folder that can be written to; {error}.", file=sys.stderr)
    return 2
  print(written)
  return 0


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
