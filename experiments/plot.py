#!/usr/bin/env python3
"""Plots one column of several runs, or client drift on a loss surface.

    python experiments/plot.py curves "beta 0=runs/fedgbo_0" "beta 0.9=runs/fedgbo_0.9" \\
      --column=diagnostics/cosine --output=cosine.png
    python experiments/plot.py drift_surface fedavg scaffold mime --steps=10 --rounds=8 --output=drift.png

`curves` draws one line per run. Unlike report.py, it does not select hyperparameters or average over seeds;
runs with the same label share a colour. It does not need TensorFlow.

`drift_surface` trains algorithms on two quadratic clients in the plane (after Mime's Figure 1). The contours
are those of f, the mean of the two objectives. Coloured lines are the clients' local steps, dots are the
server's models. With several local steps, FedAvg converges to a point between the clients' optima that does
not minimise f; algorithms that correct drift converge to the minimum of f.
"""

import argparse
import os
import sys

if not __package__:  # run as a script: import from the project's root, not from this folder
  sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from experiments.cli.errors import OneSentenceParser, UserError

DRIFT_ALGORITHMS = ("fedavg", "fedavgm", "scaffold", "mime")


def main(argv: list[str]) -> int:
  """Draws the plot; returns 2 if a run, a column or an algorithm does not exist."""
  arguments = parse(argv)
  try:
    _check_output(arguments.output)
    figure = curves(arguments) if arguments.command == "curves" else drift_surface(arguments)
    figure.savefig(arguments.output, bbox_inches="tight", dpi=130)
  except (UserError, ValueError, OSError) as error:
    print(f"plot.py: {error}", file=sys.stderr)
    return 2
  print(arguments.output)
  return 0


def parse(argv: list[str]) -> argparse.Namespace:
  """Parses the command line."""
  parser = OneSentenceParser(
    prog="plot.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
  command = commands.add_parser("curves", help="one column of several runs, a line for each run")
  command.add_argument("runs", nargs="+", metavar="[LABEL=]RUN", help="run folders, with labels")
  command.add_argument("--column", required=True, help="a column of metrics.csv")
  command.add_argument("--title", default="", help="the plot's title")
  command.add_argument("--log", action="store_true", help="use a logarithmic y axis")
  _add_output(command)
  command = commands.add_parser("drift_surface", help="client drift on a loss surface")
  command.add_argument(
    "algorithms", nargs="*", help=f"algorithms to train (default: {' '.join(DRIFT_ALGORITHMS)})"
  )
  command.add_argument("--rounds", type=int, default=12, help="number of rounds (12)")
  command.add_argument("--steps", type=int, default=6, help="local steps per round (6)")
  command.add_argument("--client_learning_rate", type=float, default=0.15, help="η_l (0.15)")
  _add_output(command)
  return parser.parse_args(argv)


def _add_output(command: argparse.ArgumentParser) -> None:
  command.add_argument("--output", required=True, metavar="FILE", help="a .png, .svg or .pdf file")


def _check_output(path: str) -> None:
  """Raises `UserError` before anything is trained or drawn that could not be written."""
  folder = os.path.dirname(os.path.abspath(path))
  if not path.endswith((".png", ".svg", ".pdf")) or not os.path.isdir(folder):
    raise UserError(
      f"--output must be a .png, .svg or .pdf file in an existing folder; found {path!r}."
    )


def curves(arguments: argparse.Namespace):
  """Reads the runs and draws one column of each."""
  from experiments.plots import curves

  lines = [curves.read(text, arguments.column) for text in arguments.runs]
  return curves.draw(lines, arguments.column, arguments.title, log=arguments.log)


def drift_surface(arguments: argparse.Namespace):
  """Trains the algorithms on two quadratic clients and draws their paths."""
  from experiments.cli import names
  from tff_momentum import validation

  chosen = arguments.algorithms or DRIFT_ALGORITHMS
  for name in chosen:
    names.check_algo(name, see="run.py --list")
  for flag in ("rounds", "steps"):
    validation.integer(f"--{flag}", getattr(arguments, flag), at_least=1)
  validation.number("--client_learning_rate", arguments.client_learning_rate, above=0)
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  from experiments.plots import drift_surface
  from tff_momentum.runtime import set_execution_context

  set_execution_context("inprocess")
  rate, steps, rounds = arguments.client_learning_rate, arguments.steps, arguments.rounds
  return drift_surface.draw(
    {name: drift_surface.train(name, rate, steps, rounds) for name in chosen}
  )


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
