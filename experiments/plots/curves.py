#!/usr/bin/env python3
"""Draws one column of several runs in one picture, a line for each run.

    python experiments/plots/curves.py "beta 0=runs/fedgbo_0" "beta 0.9=runs/fedgbo_0.9" \
        --column=diagnostics/cosine --output=cosine.png

Unlike report.py it chooses nothing: no best hyperparameters, no mean over seeds. Runs with one label share
its colour. TensorFlow is not needed.
"""

import argparse
import os
import pathlib
import sys

# This folder's own modules must not be taken for libraries of the same name.
if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
  del sys.path[0]
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))


def main(argv: list[str]) -> int:
  """Draws the picture; returns 2 where a run or the column is not there."""
  parser = argparse.ArgumentParser(
    prog="curves.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("runs", nargs="+", metavar="[LABEL=]RUN", help="run folders, maybe labelled")
  parser.add_argument("--column", required=True, help="a column of metrics.csv")
  parser.add_argument("--output", required=True, metavar="FILE", help="a .png or .svg file")
  parser.add_argument("--title", default="", help="over the picture")
  parser.add_argument("--log", action="store_true", help="a logarithmic scale")
  arguments = parser.parse_args(argv)
  from experiments.reports import figures
  from experiments.runs import reader

  lines = []
  for text in arguments.runs:
    label, _, folder = text.rpartition("=")
    found, problems = reader.read_all([folder])
    if problems or not found:
      print(f"curves.py: {problems[0] if problems else f'{folder} holds no run'}", file=sys.stderr)
      return 2
    if arguments.column not in found[0].columns:
      there = ", ".join(c for c in found[0].columns if not c.startswith("seconds/"))
      print(
        f"curves.py: {folder} has no column {arguments.column}; it has {there}.", file=sys.stderr
      )
      return 2
    lines.append((label or pathlib.Path(folder).name, found[0].columns))
  drawn = figures.run_curves(lines, arguments.column, arguments.title, log=arguments.log)
  drawn.savefig(arguments.output, bbox_inches="tight", dpi=130)
  print(arguments.output)
  return 0


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
