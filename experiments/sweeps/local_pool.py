"""Runs sweep jobs as processes on this machine, at most `jobs` at a time.

Each run leads its own process group. Ctrl-C therefore reaches it only through the sweep, and the processes
that it started can be killed with it. If the sweep itself is killed, Linux kills its runs; they lose at most
the rounds since their last checkpoint.
"""

import contextlib
import ctypes
import os
import signal
import subprocess
import sys
import time
from collections.abc import Mapping

from experiments.sweeps import forked_runs
from experiments.sweeps.pool import JobResult, PoolJob

PR_SET_PDEATHSIG = 1
_LIBC = ctypes.CDLL(None) if sys.platform == "linux" else None


class LocalPool:
  """A pool of processes, for one thread only: a run is killed when the thread that started it ends."""

  def __init__(self, jobs: int):
    self.jobs = jobs
    self._running: dict[str, tuple[subprocess.Popen | forked_runs.ForkedRun, float]] = {}
    self._environment = thread_limits(jobs) if jobs > 1 else {}

  @property
  def running(self) -> list[str]:
    """The names of the running jobs."""
    return list(self._running)

  @property
  def free(self) -> int:
    """The number of jobs that may still be started."""
    return self.jobs - len(self._running)

  def start(self, job: PoolJob) -> None:
    """Starts a job, as a forked run if possible."""
    began = (
      time.monotonic()
    )  # before the fork, so that the first run includes the imports it waits for
    process = forked_runs.start(job.command, job.log, self._environment) or start(
      job, self._environment
    )
    self._running[job.name] = process, began

  def ended(self, timeout: float) -> list[JobResult]:
    """Returns the jobs that ended; waits up to `timeout` seconds for the first of them."""
    deadline = time.monotonic() + timeout
    while True:
      found = []
      for name, (process, began) in list(self._running.items()):
        code = process.poll()
        if code is not None:
          signal_group(process, signal.SIGKILL)  # processes that the run left behind
          del self._running[name]
          found.append(JobResult(name, code, time.monotonic() - began))
      if found or time.monotonic() >= deadline:
        return found
      time.sleep(0.05)

  def interrupt(self) -> None:
    """Asks every run to finish its round and save a checkpoint."""
    for process, _ in self._running.values():
      process.send_signal(signal.SIGINT)

  def kill(self) -> None:
    """Kills every run."""
    for process, _ in self._running.values():
      signal_group(process, signal.SIGKILL)

  def close(self) -> None:
    """Kills the runs that are left and waits for them to end."""
    self.kill()
    for process, _ in self._running.values():
      process.wait()


def start(job: PoolJob, environment: Mapping[str, str]) -> subprocess.Popen:
  """Starts a job in a process that is killed when this thread ends."""
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
  """Makes Linux kill this process when its parent ends."""
  if _LIBC is not None:
    _LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != parent:  # the parent ended before the call
      os._exit(1)


def signal_group(process: subprocess.Popen | forked_runs.ForkedRun, number: int) -> None:
  """Sends a signal to a run and to every process that it started, if any is left."""
  with contextlib.suppress(ProcessLookupError, PermissionError):
    os.killpg(process.pid, number)


def cores() -> int:
  """The number of cores that this process may use."""
  return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1


def thread_limits(jobs: int) -> dict[str, str]:
  """Environment variables that limit TensorFlow to its share of the cores and to the GPU memory it needs."""
  share = str(max(1, cores() // jobs))
  return {
    "TF_NUM_INTRAOP_THREADS": share,
    "TF_NUM_INTEROP_THREADS": share,
    "OMP_NUM_THREADS": share,
    "TF_FORCE_GPU_ALLOW_GROWTH": "true",
  }
