"""Runs as processes of this machine: never more than `jobs` at once, none left behind.

Each run leads a process group of its own, so that a Ctrl-C reaches it once, through the sweep, and so that
what it started can be ended with it. If the sweep itself is killed, Linux kills its runs, which loses no more
than the rounds since their last checkpoint.
"""

import contextlib
import ctypes
import os
import pathlib
import signal
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import NamedTuple

from experiments.sweeps import forked_runs

PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class PoolJob(NamedTuple):
  """What to run: a name, a command, and the file for what it says."""

  name: str
  command: Sequence[str]
  log: pathlib.Path


class JobResult(NamedTuple):
  """A job that ended, with its exit code and how long it took."""

  name: str
  code: int
  seconds: float


class LocalPool:
  """Starts jobs as processes. For one thread only: a run ends with the thread that started it."""

  def __init__(self, jobs: int):
    self.jobs = jobs
    self._running: dict[str, tuple[subprocess.Popen | forked_runs.ForkedRun, float]] = {}
    self._environment = thread_limits(jobs) if jobs > 1 else {}

  @property
  def running(self) -> list[str]:
    """The names of the jobs under way."""
    return list(self._running)

  @property
  def free(self) -> int:
    """How many more jobs may start."""
    return self.jobs - len(self._running)

  def start(self, job: PoolJob) -> None:
    """Starts a job, warm if it is a run for which that is possible."""
    began = time.monotonic()  # the imports that a first run waits for are its own
    process = forked_runs.start(job.command, job.log, self._environment) or start(
      job, self._environment
    )
    self._running[job.name] = process, began

  def ended(self, patience: float) -> list[JobResult]:
    """Jobs that have ended; waits for the first of them, not longer than so many seconds."""
    deadline = time.monotonic() + patience
    while True:
      found = []
      for name, (process, began) in list(self._running.items()):
        code = process.poll()
        if code is not None:
          signal_group(process, signal.SIGKILL)  # whatever it started and left
          del self._running[name]
          found.append(JobResult(name, code, time.monotonic() - began))
      if found or time.monotonic() >= deadline:
        return found
      time.sleep(0.05)

  def interrupt(self) -> None:
    """Asks every run to finish its round and save."""
    for process, _ in self._running.values():
      process.send_signal(signal.SIGINT)

  def kill(self) -> None:
    """Ends every run at once."""
    for process, _ in self._running.values():
      signal_group(process, signal.SIGKILL)

  def close(self) -> None:
    """Ends what still runs, and waits for it."""
    self.kill()
    for process, _ in self._running.values():
      process.wait()


def start(job: PoolJob, environment: Mapping[str, str]) -> subprocess.Popen:
  """Starts a job that ends when this thread does."""
  parent = os.getpid()
  with open(job.log, "wb") as log:
    return subprocess.Popen(
      list(job.command),
      stdin=subprocess.DEVNULL,
      stdout=log,
      stderr=subprocess.STDOUT,
      start_new_session=True,
      preexec_fn=lambda: end_with_parent(parent),
      env={**os.environ, **environment},
    )


def end_with_parent(parent: int) -> None:
  """Has Linux kill this process when its parent ends."""
  if _LIBC is not None:
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # it died before the line above
      os._exit(1)


def signal_group(process: subprocess.Popen | forked_runs.ForkedRun, number: int) -> None:
  """Sends a signal to a run and all it started, if any of them is left."""
  with contextlib.suppress(ProcessLookupError, PermissionError):
    os.killpg(process.pid, number)


def cores() -> int:
  """The cores that this process may use."""
  return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_limits(jobs: int) -> dict[str, str]:
  """What makes TensorFlow use its share of the cores, and of a GPU's memory what it needs."""
  share = str(max(1, cores() // jobs))
  return {
    "TF_NUM_INTRAOP_THREADS": share,
    "TF_NUM_INTEROP_THREADS": share,
    "OMP_NUM_THREADS": share,
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
  }
