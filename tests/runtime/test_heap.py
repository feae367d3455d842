"""Freed memory stays in the process, unless the environment says otherwise."""

import os
import subprocess
import sys

import pytest

from tests import ROOT

PROGRAM = "from tff_momentum.runtime import heap; print(heap.keep_freed_memory())"


@pytest.mark.skipif(sys.platform != "linux", reason="glibc's options")
@pytest.mark.parametrize(
  ("setting", "expected"), [({}, "True"), ({"MALLOC_TRIM_THRESHOLD_": "131072"}, "False")]
)
def test_the_environment_has_the_last_word(setting, expected):
  environment = {name: value for name, value in os.environ.items() if "MALLOC" not in name}
  found = subprocess.run(
    [sys.executable, "-c", PROGRAM],
    env={**environment, **setting},
    cwd=ROOT,
    capture_output=True,
    text=True,
    check=True,
  )
  assert found.stdout.strip() == expected
