"""Runs the examples in docstrings (`pytest --doctest-modules`) on the in-process runtime."""

import os

import pytest

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "3")


@pytest.fixture(autouse=True)
def _examples_run_in_process(request: pytest.FixtureRequest) -> None:
  if isinstance(request.node, pytest.DoctestItem):
    from tff_momentum.runtime import set_execution_context

    set_execution_context("inprocess")
