"""Runs forked from a process that has already imported TensorFlow and TFF.

Importing them takes longer than a short run takes to train. Python's fork server imports them once. It does
not start any TensorFlow threads or devices, so a fork of it behaves like a new process, and results are
bit-identical.
"""

import multiprocessing
import os
import pathlib
import signal
import sys
from collections.abc import Mapping, Sequence
from multiprocessing import forkserver
from multiprocessing.context import ForkServerContext

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN = ROOT / "experiments" / "run.py"
SAFE_PATH = "PYTHONSAFEPATH"  # keeps the working directory from the head of Python's path
IMPORTED = [
  "experiments.training.experiment",
  "experiments.sweeps.forked_runs",
  "matplotlib.pyplot",
]


class ForkedRun:
  """A forked run of `run.py`, with the methods of `subprocess.Popen` that pools use."""

  def __init__(self, flags: Sequence[str], log: pathlib.Path, environment: Mapping[str, str]):
    self._process = _server().Process(target=_run, args=(flags, str(log), dict(environment)))
    self._process.start()
    self.pid: int = self._process.pid or 0

  def poll(self) -> int | None:
    """The exit code, or −N if signal N ended the run; None while it runs."""
    return self._process.exitcode

  def wait(self) -> int | None:
    """Waits for the run to end; returns the exit code."""
    self._process.join()
    return self._process.exitcode

  def send_signal(self, number: int) -> None:
    """Sends a signal to the run."""
    os.kill(self.pid, number)


def start(
  command: Sequence[str], log: pathlib.Path, environment: Mapping[str, str]
) -> ForkedRun | None:
  """Starts a command as a forked run; returns None if it must be started as a new process.

  Only runs of `run.py` with the in-process runtime can be forked: a thread that TFF's own context needs does
  not survive a fork.
  """
  _, script, *flags = command
  runtimes = {flag for flag in flags if flag.startswith("--runtime=")}
  if script != str(RUN) or not runtimes <= {"--runtime=inprocess"} or sys.platform != "linux":
    return None
  return ForkedRun(flags, log, environment)


def _server() -> ForkServerContext:
  context = multiprocessing.get_context("forkserver")
  context.set_forkserver_preload(IMPORTED)
  path = os.environ.get("PYTHONPATH", "")
  if str(ROOT) not in path.split(os.pathsep):  # the fork server does not inherit sys.path
    os.environ["PYTHONPATH"] = os.pathsep.join([str(ROOT), path]).rstrip(os.pathsep)
  os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
  # Without it, a module in the working directory that has the name of one of ours would take its place.
  os.environ[SAFE_PATH] = "1"
  try:
    forkserver.ensure_running()
  finally:
    del os.environ[SAFE_PATH]
  return context


def _run(flags: Sequence[str], log: str, environment: Mapping[str, str]) -> None:
  """Does in the forked process what starting `run.py` would do."""
  from experiments import run
  from experiments.sweeps import local_pool

  os.environ.pop(SAFE_PATH, None)
  os.setsid()
  local_pool.end_with_parent(os.getppid())
  signal.signal(signal.SIGINT, signal.default_int_handler)
  os.environ.update(environment)
  with open(os.devnull) as nothing, open(log, "wb") as output:
    for number, file in enumerate((nothing, output, output)):
      os.dup2(file.fileno(), number)
  sys.stdin = open(0, closefd=False)  # noqa: SIM115 - multiprocessing replaced it
  sys.argv = ["run.py", *flags]
  run.main(sys.argv)
