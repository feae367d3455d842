"""Tests run on the in-process runtime, on which TFF computations cost milliseconds."""

import os
import signal
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
  # As a shell's background jobs have it. TFF ends its worker with this signal, and waits for it to end.
  signal.signal(signal.SIGINT, signal.default_int_handler)

import pytest


@pytest.fixture(scope="module", autouse=True)
def _runtime():
  if "tensorflow" in sys.modules:  # some test files need neither TensorFlow nor a runtime
    from tff_momentum.runtime import set_execution_context

    set_execution_context("inprocess")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config, log):
  """Keeps the tests of a file in one process: many share what took seconds to build."""
  from xdist.scheduler import LoadFileScheduling

  return LoadFileScheduling(config, log)
