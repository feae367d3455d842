"""Runs of run.py in processes of their own that need not import TensorFlow again, as sweeps start them.

They are real processes, to be killed and interrupted; how a cold start behaves is for test_run.
"""

import pathlib
import tempfile
from typing import NamedTuple

from experiments.sweeps import forked_runs


class Ended(NamedTuple):
  """A run that has ended: its exit code, and all that it said."""

  returncode: int
  output: str


class Running:
  """A run under way."""

  def __init__(self, *arguments: str):
    self._log = pathlib.Path(tempfile.mkstemp(suffix=".log")[1])
    self.process = forked_runs.ForkedRun(arguments, self._log, {})

  def wait(self) -> Ended:
    """Waits for its end."""
    code = self.process.wait()
    output = self._log.read_text()
    self._log.unlink()
    return Ended(code, output)


def run(*arguments: str) -> Ended:
  """Runs to the end."""
  return Running(*arguments).wait()
