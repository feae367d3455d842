#!/usr/bin/env python3
"""Draws client drift: two clients, their optima, and the paths of algorithms over the loss surface.

    python experiments/plots/surface.py --output=drift.png
    python experiments/plots/surface.py fedavg scaffold mime --steps=10 --rounds=8 --output=drift.png

Two quadratic clients in the plane (after Mime's Figure 1). The contours are those of f, the mean of the two;
coloured lines are the clients' local steps, dots the server's models. With several local steps FedAvg goes
to a point between the clients' own optima, which is not where f is least; what corrects the drift goes there.
"""

import argparse
import os
import sys

# This folder's own modules must not be taken for libraries of the same name.
if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
  del sys.path[0]
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))))
os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


def main(argv: list[str]) -> int:
  """Trains and draws; returns 2 for a name that is none."""
  parser = argparse.ArgumentParser(
    prog="surface.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument("algorithms", nargs="*", help="algorithms (fedavg, fedavgm, scaffold, mime)")
  parser.add_argument("--output", required=True, metavar="FILE", help="a .png or .svg file")
  parser.add_argument("--rounds", type=int, default=12, help="rounds (12)")
  parser.add_argument("--steps", type=int, default=6, help="local steps (6)")
  parser.add_argument("--client_learning_rate", type=float, default=0.15, help="η_l (0.15)")
  arguments = parser.parse_args(argv)
  from experiments.cli import errors
  from tff_momentum.registry import ALGORITHMS

  names = arguments.algorithms or ["fedavg", "fedavgm", "scaffold", "mime"]
  try:
    for name in names:
      errors.check_name("--algo", name, ALGORITHMS)
    # Only now what takes time to import, so that a wrong name is answered at once.
    from experiments.plots import drift_surface
    from tff_momentum.runtime import set_execution_context

    set_execution_context("inprocess")
    rate, steps, rounds = arguments.client_learning_rate, arguments.steps, arguments.rounds
    paths = {name: drift_surface.walk(name, rate, steps, rounds) for name in names}
  except (errors.UserError, ValueError) as error:
    print(f"surface.py: {error}", file=sys.stderr)
    return 2
  drift_surface.draw(paths).savefig(arguments.output, bbox_inches="tight", dpi=130)
  print(arguments.output)
  return 0


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
