"""Tests run on the in-process runtime, on which TFF computations cost milliseconds."""

import os
import sys

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

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
