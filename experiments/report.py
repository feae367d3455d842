#!/usr/bin/env python3
"""Compares runs in one HTML page, with figures and tables for a paper.

    python experiments/report.py runs --output=report
    python experiments/report.py runs --watch

Takes run folders, or folders that contain them. Writes index.html (self-contained), figures/*.png and *.svg,
tables/*.md, *.tex and *.csv. With --watch, serves a live page of finished and running runs instead, to this
machine only. Does not need TensorFlow.
"""

import argparse
import os
import sys

if not __package__:  # run as a script: import from the project's root, not from this folder
  sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from experiments.cli.errors import OneSentenceParser


def main(argv: list[str]) -> int:
  """Writes or serves the report; returns 2 if no run is usable."""
  arguments = _parser().parse_args(argv)
  # Imports that take time come after the flags are parsed.
  if arguments.watch:
    from experiments.reports import watch

    missing = [path for path in arguments.runs if not os.path.isdir(path)]
    if missing:
      print(f"report.py: expected folders of runs; {missing[0]} is not a folder.", file=sys.stderr)
      return 2
    return watch.serve(arguments.runs, arguments.port)
  from experiments.reports import comparison
  from experiments.reports.collect import Collector

  found = Collector(arguments.runs).collect()
  settings, repeated = comparison.compare(found.finished, found.unfinished)
  problems = [*found.problems, *repeated]
  if not any(setting.methods for setting in settings):
    reasons = " ".join(
      [*problems, *(["--watch shows unfinished runs."] if found.unfinished else [])]
    )
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


def _parser() -> OneSentenceParser:
  parser = OneSentenceParser(
    prog="report.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument(
    "runs", nargs="+", metavar="RUNS", help="run folders, or folders that contain them"
  )
  parser.add_argument(
    "--output", default="report", metavar="DIR", help="the output folder (report)"
  )
  parser.add_argument(
    "--watch",
    action="store_true",
    help="serve a live page of the runs on 127.0.0.1 instead of writing files; Ctrl-C ends it",
  )
  parser.add_argument(
    "--port", type=_port, default=0, help="the port of --watch (default: any free one)"
  )
  return parser


def _port(text: str) -> int:
  if not text.isdecimal() or int(text) > 65535:
    raise argparse.ArgumentTypeError(f"expected a number from 0 to 65535; found {text!r}")
  return int(text)


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
