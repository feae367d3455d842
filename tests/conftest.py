"""Makes the in-process runtime the default for tests: a TFF computation takes milliseconds on it."""

import os
import signal
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
  # Shells start background jobs with SIGINT ignored. TFF ends its worker with SIGINT and waits for it.
  signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest

collect_ignore = ["helpers/kit_project"]  # a project of its own: tests/testing runs its tests


@pytest.fixture(scope="module", autouse=True)
def _inprocess_runtime():
  if "tensorflow" in sys.modules:  # some test files do without TensorFlow
    from tff_momentum.runtime import set_execution_context

    set_execution_context("inprocess")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
  """Runs all tests of a file in one process: many of them share what takes seconds to build."""
  from xdist.scheduler import LoadFileScheduling

  return LoadFileScheduling(config, log)
