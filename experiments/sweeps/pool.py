"""The interface between a sweep and the place where its runs execute."""

import pathlib
from collections.abc import Sequence
from typing import NamedTuple, Protocol


class PoolJob(NamedTuple):
  """A command to execute, with a name and the file that receives its output."""

  name: str
  command: Sequence[str]
  log: pathlib.Path


class JobResult(NamedTuple):
  """The name, exit code and duration of a job that ended; the code is −N if signal N ended it."""

  name: str
  code: int
  seconds: float


class Pool(Protocol):
  """A place where jobs execute: this machine, or a Ray cluster."""

  @property
  def running(self) -> list[str]:
    """The names of the jobs that were started and have not ended."""

  @property
  def free(self) -> int:
    """The number of jobs that may still be started."""

  @property
  def jobs(self) -> int:
    """The number of jobs that execute at the same time, for an estimate of the time left."""

  def start(self, job: PoolJob) -> None:
    """Starts a job."""

  def ended(self, timeout: float) -> list[JobResult]:
    """Returns the jobs that ended; waits up to `timeout` seconds for the first of them."""

  def interrupt(self) -> None:
    """Asks every run to finish its round and save a checkpoint."""

  def kill(self) -> None:
    """Kills every run."""

  def close(self) -> None:
    """Kills the runs that are left and releases the pool's resources."""
