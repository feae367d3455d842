"""Checks the flags of all runs of a sweep before the first one starts, in a process of its own.

A process of its own, because run.py and sweep.py define flags of the same names differently, and because
texts such as `sgdm(0.9)` can only be checked with TensorFlow, which sweep.py does not load.
"""

import json
import os
import subprocess
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

from experiments.cli.errors import UserError
from experiments.sweeps.forked_runs import ROOT, SAFE_PATH
from experiments.sweeps.search_space import SweepRun
from tff_momentum.ranges import range_of

if TYPE_CHECKING:
  from experiments.cli.run_request import RunRequest


def check(runs: Sequence[SweepRun], *, thoroughly: bool) -> None:
  """Raises `UserError`, with the name of the run, for flags that run.py would refuse.

  Args:
    runs: all runs of the sweep; of those that differ in the seed alone, the first is checked.
    thoroughly: whether to call the builders too, for which TensorFlow must be loaded if a hyperparameter is
      a schedule, an optimizer or the like.
  """
  first = {run.configuration: run for run in reversed(runs)}
  asked = {"runs": {run.name: run.flags for run in first.values()}, "thoroughly": thoroughly}
  # With SAFE_PATH, a file in the working directory cannot hide a module of ours.
  environment = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", SAFE_PATH: "1"}
  done = subprocess.run(
    [sys.executable, "-c", "from experiments.sweeps import check_runs; check_runs.main()"],
    input=json.dumps(asked),
    capture_output=True,
    text=True,
    env={**environment, "PYTHONPATH": os.pathsep.join([str(ROOT), *filter(None, sys.path)])},
  )
  if done.returncode == 2:
    raise UserError(done.stderr.strip().splitlines()[-1])
  if done.returncode:
    raise RuntimeError(f"The check of the sweep's runs failed: {done.stderr}")


def main() -> None:
  """Checks the runs on stdin; prints a sentence and exits with 2 if one is refused."""
  from experiments.cli import flags as cli_flags
  from experiments.cli import run_request

  asked = json.load(sys.stdin)
  cli_flags.define_flags()
  for name, flags in asked["runs"].items():
    cli_flags.FLAGS.unparse_flags()
    for flag in cli_flags.FLAGS:
      cli_flags.FLAGS[flag].unparse()
    try:
      cli_flags.parse(["run.py", *flags])
      request = run_request.from_flags(cli_flags.FLAGS)
      if asked["thoroughly"] and _needs_builder(request):
        from experiments.training import build

        build.check_values(request.algo, request.hyperparameters)
        build.check_transforms(
          request.algo, request.hyperparameters, request.transform, request.compression
        )
    except (UserError, ValueError) as error:
      print(f"{name}: {' '.join(str(error).split())}", file=sys.stderr)
      sys.exit(2)


def _needs_builder(request: "RunRequest") -> bool:
  """Whether only the builder can check the values."""
  if request.transform:
    return True
  for name, value in request.hyperparameters.items():
    found = range_of(request.algo, name)
    if found is None or (isinstance(value, str) and found.kind != "choice"):
      return True
  return False
