#!/usr/bin/env python3
"""Trains one algorithm on one task.

    python experiments/run.py --task=digits --algo=scaffold

The run writes to a folder of its own, runs/digits_scaffold_1; the same command resumes it. `--list` shows all
tasks and algorithms, `--list --algo=scaffold` an algorithm's hyperparameters, `--help` all flags. Invalid
flags exit with code 2 and a one-line error.
"""

import os
import signal
import sys

if not __package__:  # run as a script: import from the project's root, not from this folder
  sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from experiments.cli import errors, flags, from_config, listings, presets, run_request
from experiments.cli.flags import FLAGS
from tff_momentum import garbage


def main(argv: list[str]) -> None:
  """Checks the command line, then imports TensorFlow and trains."""
  flags.define_flags()
  try:
    shows_presets = "--list_presets" in argv  # --preset is then the start of a name
    flags.parse(argv if shows_presets else presets.expand(from_config.expand(argv)))
    if FLAGS["help"].value or FLAGS.list or shows_presets:
      signal.signal(signal.SIGPIPE, signal.SIG_DFL)  # `| head` is not an error
      print(f"{__doc__}\n{flags.help_text()}" if FLAGS["help"].value else listings.shown(FLAGS))
      return
    request = run_request.from_flags(FLAGS)
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    with garbage.imports_to_keep():
      from experiments.training import experiment

    sys.exit(experiment.run(request))
  except errors.UserError as error:
    errors.fail(str(error))
  except KeyboardInterrupt:
    errors.fail("interrupted before the first round; run the same command to start.", code=130)


if __name__ == "__main__":
  main(sys.argv)
