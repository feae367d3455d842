"""Runs of run.py in forked processes that need not import TensorFlow again, as sweeps start them.

They are real processes, which tests can kill and interrupt. Runs in new processes are tested in test_run.
"""

import pathlib
import tempfile
from typing import NamedTuple

from experiments.sweeps import forked_runs


class FinishedRun(NamedTuple):
  """The exit code and the output of a run."""

  returncode: int
  output: str


class Running:
  """A running run."""

  def __init__(self, *arguments: str):
    self._log = pathlib.Path(tempfile.mkstemp(suffix=".log")[1])
    self.process = forked_runs.ForkedRun(arguments, self._log, {})

  def wait(self) -> FinishedRun:
    """Waits for the run to end."""
    code = self.process.wait()
    output = self._log.read_text()
    self._log.unlink()
    return FinishedRun(code, output)


def run(*arguments: str) -> FinishedRun:
  """Starts a run and waits for it to end."""
  return Running(*arguments).wait()
