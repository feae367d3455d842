"""All tests run on the in-process runtime, on which TFF computations cost milliseconds."""

import os

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")

import pytest


@pytest.fixture(scope="session", autouse=True)
def _runtime():
  from tff_momentum.runtime import set_execution_context

  set_execution_context("inprocess")
