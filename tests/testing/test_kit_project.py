"""Somebody else's project tests its algorithm with the kit; .ci/run does the same with the wheel alone."""

import os
import shutil
import subprocess
import sys

import pytest

from tests import ROOT

PROJECT = ROOT / "tests/helpers/kit_project"


def pytest_there(folder, *arguments):
  """Runs the project's tests in a copy of it, from which the source tree of the library is importable."""
  copy = folder / "project"
  shutil.copytree(PROJECT, copy, dirs_exist_ok=True)
  command = [sys.executable, "-m", "pytest", "-v", "-p", "tff_momentum.testing.pytest_plugin"]
  return subprocess.run(
    [*command, *arguments],
    cwd=copy, capture_output=True, text=True, timeout=1200, env={**os.environ, "PYTHONPATH": str(ROOT)},
  )  # fmt: skip


def test_the_algorithm_passes_and_every_bug_is_found(tmp_path):
  """But for the checks that start other processes."""
  done = pytest_there(tmp_path, "-k", "not ray and not tff_worker and not gpu")
  assert done.returncode == 0, done.stdout + done.stderr
  assert "test_my_algorithm[types] PASSED" in done.stdout
  assert done.stdout.count("test_a_bug_is_found") == 8
  assert "test_ignored_weights_are_found PASSED" in done.stdout


@pytest.mark.slow
def test_the_other_runtimes_and_the_gpu_audit(tmp_path):
  done = pytest_there(tmp_path, "-k", "ray or tff_worker or gpu")
  assert done.returncode == 0, done.stdout + done.stderr
  for check in ("ray", "tff_worker", "gpu_audit"):
    assert f"test_my_algorithm[{check}] PASSED" in done.stdout
  assert "without_a_gpu_kernel_is_found PASSED" in done.stdout


FAILS = """
from my_momentum import bugs

def test_a_bug(algorithm_check):
  algorithm_check(bugs.too_many_bytes)

def test_defined_in_a_function(algorithm_check):
  algorithm_check(lambda *, client_learning_rate: bugs.momentum(client_learning_rate=client_learning_rate))
"""


def test_a_failed_check_is_one_sentence_and_a_skipped_one_has_its_reason(tmp_path):
  (tmp_path / "project/tests").mkdir(parents=True)
  (tmp_path / "project/tests/test_bugs.py").write_text(FAILS)
  done = pytest_there(
    tmp_path, "tests/test_bugs.py", "-rs", "-k", "bytes or gpu_audit and function"
  )
  assert "1 failed, 1 passed, 1 skipped" in done.stdout, done.stdout + done.stderr
  assert "bytes: Expected upload_bytes of exchange 0 to be a whole number" in done.stdout
  assert "Traceback" not in done.stdout
  assert "pytest_plugin.py" not in done.stdout.split("short test summary")[0]
  assert "define the builder at the top level of a module" in done.stdout
