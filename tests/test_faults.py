"""Faults from outside, with real processes and real disks: a full disk, a folder that cannot be written to,
data replaced during a run, a killed worker, a clock that jumps. Kills of a run itself are in test_resume.
"""

import ast
import os
import pathlib
import shutil
import subprocess
import sys

import pytest

from tasks.cache import DataError
from tests import test_resume as resume
from tests.test_task_caches import load, write_stackoverflow

ROOT = pathlib.Path(__file__).resolve().parent.parent


@pytest.fixture
def small_disk(tmp_path):
  """A file system of 3 MiB."""
  disk = tmp_path / "disk"
  disk.mkdir()
  mounted = subprocess.run(
    ["mount", "-t", "tmpfs", "-o", "size=3m", "tmpfs", str(disk)], capture_output=True, check=False
  )
  if mounted.returncode:
    pytest.skip("Only root may mount a small disk.")
  yield disk
  subprocess.run(["umount", "-l", str(disk)], check=False)


@pytest.mark.slow
def test_a_full_disk_costs_no_more_than_the_rounds_since_the_last_checkpoint(small_disk, tmp_path):
  arguments = ["--algo=scaffold", "--rounds_per_checkpoint=2"]
  resume.run(tmp_path, "whole", *arguments)
  resume.start_and_stop(small_disk, "one", *arguments, rows=4, with_signal=resume.signal.SIGTERM)
  free = shutil.disk_usage(small_disk).free
  ballast = small_disk / "ballast"
  ballast.write_bytes(bytes(free - 50_000))
  full = subprocess.run(
    resume.command(small_disk, "one", *arguments), cwd=ROOT, capture_output=True, text=True
  )
  assert full.returncode == 2, full.stderr
  assert "No space left on device" in full.stderr
  assert "Traceback" not in full.stderr
  ballast.unlink()
  resume.run(small_disk, "one", *arguments)
  resume.assert_same_run(tmp_path / "whole", small_disk / "one")


@pytest.mark.slow
def test_a_folder_that_cannot_be_written_to(small_disk):
  subprocess.run(["mount", "-o", "remount,ro", str(small_disk)], check=True)
  refused = subprocess.run(
    resume.command(small_disk, "one", "--algo=fedavg"), cwd=ROOT, capture_output=True, text=True
  )
  assert refused.returncode == 2
  assert "must be a folder that can be written to: Read-only file system" in refused.stderr
  assert "Traceback" not in refused.stderr


def test_data_replaced_during_a_run_is_not_trained_on(tmp_path):
  database = write_stackoverflow(tmp_path)
  task = load(database, "stackoverflow")
  task.dataset("ann", [0, 0], 4)
  copy = database.with_suffix(".copy")
  shutil.copyfile(database, copy)
  os.replace(copy, database)
  with pytest.raises(DataError, match=r"was changed or replaced .* put the same file back"):
    task.dataset("bob", [0, 0], 4)


KILLED_WORKER = """
import os, signal
import numpy as np
from tests import harness, runs
from tff_momentum.runtime import set_execution_context, worker

started = []
original = worker.WorkerProcess.__init__
def remember(self, *arguments, **options):
  original(self, *arguments, **options)
  started.append(self)
worker.WorkerProcess.__init__ = remember

set_execution_context("tff")
process = runs.process("fedavg", client_learning_rate=0.1)
cohorts = [(0, 1, 2)]
first = harness.run_process(process, cohorts)
os.killpg(started[0].process_group, signal.SIGKILL)
second = harness.run_process(process, cohorts)
assert len(started) == 2, "a new worker takes the place of the one that was killed"
np.testing.assert_array_equal(first.x, second.x)
started[1].stop()
print("same bits")
"""


@pytest.mark.slow
def test_a_killed_worker_of_tff_is_replaced(tmp_path):
  with (tmp_path / "output").open("w+") as output:
    ended = subprocess.run(
      [sys.executable, "-c", KILLED_WORKER], cwd=ROOT, stdout=output, stderr=output, timeout=300
    )
    output.seek(0)
    text = output.read()
  assert ended.returncode == 0, text[-2000:]
  assert "same bits" in text


def test_nothing_asks_what_time_it_is():
  """Durations are taken from a clock that cannot jump; only the benchmark compares two processes' clocks."""
  askers = set()
  for path in (
    p for part in ("tff_momentum", "tasks", "experiments") for p in (ROOT / part).rglob("*.py")
  ):
    for node in ast.walk(ast.parse(path.read_text())):
      if isinstance(node, ast.Attribute) and ast.unparse(node) in ("time.time", "datetime.now"):
        askers.add(path.relative_to(ROOT).as_posix())
  assert askers <= {"experiments/benchmark.py", "experiments/benchmarking/worker.py"}
