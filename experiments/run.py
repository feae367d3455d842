#!/usr/bin/env python3
"""Trains one algorithm on one task.

    python experiments/run.py --task=digits --algo=scaffold

The run writes to a folder of its own, runs/digits_scaffold_1; the same command resumes it. `--list` shows all
tasks and algorithms, `--help` all flags. Invalid flags exit with code 2 and a one-line error.
"""

import os
import signal
import sys

if not __package__:  # run as a script: import from the project's root, not from this folder
  sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

import tasks
from experiments.cli import errors, flags, from_config, presets, run_request
from experiments.cli.flags import FLAGS
from tff_momentum.registry import ALGORITHMS


def main(argv: list[str]) -> None:
  """Checks the command line, then imports TensorFlow and trains."""
  flags.define_flags()
  try:
    flags.parse(presets.expand(from_config.expand(argv)))
    if FLAGS["help"].value or FLAGS.list:
      signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` is not an error
      print(f"{__doc__}\n{flags.help_text()}" if FLAGS["help"].value else listing())
      return
    request = run_request.from_flags(FLAGS)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    from experiments.training import experiment

    sys.exit(experiment.run(request))
  except errors.UserError as error:
    errors.fail(str(error))
  except KeyboardInterrupt:
    errors.fail("interrupted before the first round; run the same command to start.", code=130)


def listing() -> str:
  """All tasks and algorithms, one per line."""
  lines = ["Tasks:"]
  lines += [f"  {name:20} {info.summary}" for name, info in tasks.TASKS.items()]
  lines += ["", "Algorithms:"]
  lines += [f"  {name:16} {info.source:28} {info.rule}" for name, info in ALGORITHMS.items()]
  return "\n".join(lines)


if __name__ == "__main__":
  main(sys.argv)
