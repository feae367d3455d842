#!/usr/bin/env python3
"""Trains one algorithm on one task.

    python experiments/run.py --task=digits --algo=scaffold

Runs in a folder of its own, runs/digits_scaffold_1; the same command again resumes it. `--list` shows tasks
and algorithms, `--help` all flags.
"""

import os
import signal
import sys

# The project's root takes the place of this folder, whose names would hide others'.
if sys.path[0] == os.path.dirname(os.path.abspath(__file__)):
  del sys.path[0]
sys.path.insert(0, os.path.dirname(os.path.dirname(os.path.abspath(__file__))))

from absl import flags

import tasks
from experiments.cli import errors, from_config, presets
from experiments.cli import flags as settings
from tff_momentum.registry import ALGORITHMS


def main(argv: list[str]) -> None:
  """Reads the flags; imports TensorFlow only once they are right."""
  settings.define_flags()
  try:
    settings.parse(presets.expand(from_config.expand(argv)))
    if flags.FLAGS["help"].value or flags.FLAGS.list:
      signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` is no error
    if flags.FLAGS["help"].value:
      print(f"{__doc__}\n{settings.help_text()}")
    elif flags.FLAGS.list:
      print(listing())
    else:
      os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
      from experiments.training import experiment

      sys.exit(experiment.run(flags.FLAGS))
  except errors.UserError as error:
    errors.fail(str(error))


def listing() -> str:
  """Tasks and algorithms, a line each."""
  lines = ["Tasks:"]
  lines += [f"  {name:20} {entry.summary}" for name, entry in tasks.TASKS.items()]
  lines += ["", "Algorithms:"]
  lines += [f"  {name:14} {entry.source:24} {entry.rule}" for name, entry in ALGORITHMS.items()]
  return "\n".join(lines)


if __name__ == "__main__":
  main(sys.argv)
