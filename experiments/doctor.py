#!/usr/bin/env python3
"""Checks this machine: prints a green or red line for each check, with a fix for what fails.

    python experiments/doctor.py [--data_dir=DIR] [--ray=ADDRESS] [--gpu_audit]

Exits with code 1 if a check fails. Checks that need TensorFlow run in their own processes with a time limit,
so that a crash or a hang is reported as a failure.
"""

import argparse
import dataclasses
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable

if not __package__:  # run as a script: import from the project's root, not from this folder
  sys.path[0] = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))

from experiments.checks import gpus, machine
from experiments.checks.machine import INSTALL, CheckResult
from experiments.cli.errors import OneSentenceParser


@dataclasses.dataclass(frozen=True)
class Check:
  """A named check; `seconds` is its time limit if it runs in its own process."""

  name: str
  function: Callable[[argparse.Namespace], CheckResult]
  seconds: float | None = None


CHECKS = (
  Check("python", machine.python),
  Check("packages", machine.packages),
  Check("disk", machine.disk),
  Check("memory", machine.memory),
  Check("data", machine.data),
  Check("gpu", gpus.gpu),
  Check("devices", machine.devices, seconds=120),
  Check("training", machine.training, seconds=180),
  Check("tff worker", machine.tff_worker, seconds=180),
  Check("ray", machine.ray, seconds=120),
)
# What --gpu_audit adds.
AUDIT = Check("gpu audit", gpus.audit, seconds=1800)


def perform(check: Check, arguments: argparse.Namespace) -> CheckResult:
  """Runs a check in this process; an exception is a failure."""
  try:
    return check.function(arguments)
  except Exception as error:
    said = " ".join(str(error).split())[:200]
    return CheckResult(False, f"{type(error).__name__}: {said}", INSTALL)


def perform_apart(check: Check, argv: list[str]) -> CheckResult:
  """Runs a check in its own process, so that it cannot crash or block this one."""
  with tempfile.TemporaryDirectory() as folder:
    answer = pathlib.Path(folder) / "answer.json"
    command = [sys.executable, __file__, *argv, f"--only={check.name}", f"--answer={answer}"]
    # Output goes to a file, because a process that the check leaves behind could keep a pipe open.
    with open(pathlib.Path(folder) / "output", "w+b") as output:
      try:
        code = subprocess.run(
          command,
          stdin=subprocess.DEVNULL,
          stdout=output,
          stderr=output,
          timeout=check.seconds,
          cwd=os.getcwd(),
        ).returncode
      except subprocess.TimeoutExpired:
        return CheckResult(
          False,
          f"no answer within {check.seconds:g} s",
          "try again on an idle machine; if that fails, " + INSTALL,
        )
      if answer.exists():
        return CheckResult(**json.loads(answer.read_text(encoding="utf-8")))
      output.seek(0)
      said = output.read().decode(errors="replace").strip().splitlines()
  how = f"ended by signal {-code}" if code < 0 else f"ended with code {code}"
  return CheckResult(False, f"{how}: {said[-1][:200] if said else 'no output'}", INSTALL)


def main(argv: list[str]) -> int:
  """Prints a line for each check; returns 1 if one fails."""
  parser = OneSentenceParser(
    prog="doctor.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
  )
  parser.add_argument(
    "--data_dir", help="the folder of the data sets, which contains tff/ and tfds/"
  )
  parser.add_argument("--ray", metavar="ADDRESS", help="check the Ray cluster at this address")
  parser.add_argument(
    "--gpu_audit",
    action="store_true",
    help="look for what would be slow on a GPU in all algorithms and models; needs no GPU, takes minutes",
  )
  parser.add_argument(
    "--only", choices=[check.name for check in (*CHECKS, AUDIT)], help="run only this check"
  )
  parser.add_argument("--answer", help=argparse.SUPPRESS)
  arguments = parser.parse_args(argv)
  every = (*CHECKS, AUDIT) if arguments.gpu_audit or arguments.only == AUDIT.name else CHECKS
  checks = [check for check in every if arguments.only in (None, check.name)]
  if arguments.answer:
    os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
    line = perform(checks[0], arguments)
    pathlib.Path(arguments.answer).write_text(
      json.dumps(dataclasses.asdict(line)), encoding="utf-8"
    )
    return 0
  asked = [a for a in argv if not a.startswith("--only")]
  red = 0
  for check in checks:
    line = perform_apart(check, asked) if check.seconds else perform(check, arguments)
    print(shown(check.name, line), flush=True)
    red += not line.ok
  print("Everything works." if not red else f"{red} of {len(checks)} checks failed.")
  return 1 if red else 0


def shown(name: str, line: CheckResult) -> str:
  """The line of a check: a mark that is green or red on a terminal, the result, and the fix."""
  mark = "ok " if line.ok else "BAD"
  if sys.stdout.isatty() and "NO_COLOR" not in os.environ:
    mark = f"\033[{32 if line.ok else 31}m{mark}\033[0m"
  fix = "" if line.ok or not line.fix else f"\n{'':15} fix: {line.fix}"
  return f"{mark} {name:10}  {line.found}{fix}"


if __name__ == "__main__":
  sys.exit(main(sys.argv[1:]))
