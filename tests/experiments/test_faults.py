"""Faults from outside, with real processes and real disks: a full disk, a folder that cannot be written to,
data replaced during a run, a killed worker, a clock that jumps. Kills of a run itself are in test_resume.
"""

import ast
import csv
import os
import shutil
import subprocess
import sys
import time

import pytest

from tasks.data.folders import DataError
from tests import ROOT
from tests.experiments import test_resume as resume
from tests.tasks.test_broken_files import load, rewrite, write_stackoverflow


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


@pytest.mark.slow
def test_data_replaced_while_a_run_reads_it_ends_the_run_in_one_sentence(tmp_path):
  database = write_stackoverflow(tmp_path)
  clients = {f"user {i}": 8 for i in range(400)}
  rewrite(database, {"train": clients, "heldout": {"cy": 4}, "test": {"dee": 6}})
  process = subprocess.Popen(
    [sys.executable, "experiments/run.py", "--task=stackoverflow_tag", "--algo=fedavg", "--quiet",
     "--clients_per_round=2", "--total_rounds=100000", "--rounds_per_eval=100000",
     f"--data_dir={tmp_path}", f"--root_output_dir={tmp_path}", "--experiment_name=one"],
    cwd=ROOT, stderr=subprocess.PIPE, text=True,
  )  # fmt: skip
  while process.poll() is None and resume.finished_rounds(tmp_path / "one") < 2:
    time.sleep(0.05)
  copy = database.with_suffix(".copy")
  shutil.copyfile(database, copy)
  os.replace(copy, database)
  _, said = process.communicate(timeout=200)
  assert process.returncode == 2, said
  assert "was changed or replaced" in said
  assert "Traceback" not in said


@pytest.mark.slow
@pytest.mark.parametrize("states", ["memory", "disk"])
@pytest.mark.parametrize("damage", ["truncated", "flipped"])
def test_a_run_goes_on_from_the_checkpoint_before_a_damaged_one(tmp_path, damage, states):
  arguments = ["--algo=scaffold", "--rounds_per_checkpoint=2", f"--client_states={states}"]
  resume.run(tmp_path, "whole", *arguments)
  resume.start_and_stop(tmp_path, "one", *arguments, rows=6, with_signal=resume.signal.SIGTERM)
  newest = max((tmp_path / "one" / "checkpoints").glob("0*"))
  content = bytearray((newest / "server").read_bytes())
  content[len(content) // 2] ^= 1
  (newest / "server").write_bytes(content[:-100] if damage == "truncated" else content)
  resumed = resume.run(tmp_path, "one", *arguments)
  assert f"The checkpoint {newest.name} cannot be used" in resumed.output
  assert resume.rows(tmp_path / "whole") == resume.rows(tmp_path / "one")
  if states == "memory":  # a checkpoint with its states on disk names its own store
    resume.assert_same_run(tmp_path / "whole", tmp_path / "one")


KILLED_WORKER = """
import os, signal
import numpy as np
from tests.helpers import harness, shared_runs
from tff_momentum.runtime import set_execution_context, tff_worker

started = []
original = tff_worker.WorkerProcess.__init__
def remember(self, *arguments, **options):
  original(self, *arguments, **options)
  started.append(self)
tff_worker.WorkerProcess.__init__ = remember

set_execution_context("tff")
process = shared_runs.process("fedavg", client_learning_rate=0.1)
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


# The wall clock is a day ahead or a day behind, by turns, for half a second each.
JUMPING_CLOCK = """
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stddef.h>
#include <sys/time.h>
#include <time.h>
typedef int (*reader)(clockid_t, struct timespec *);
int clock_gettime(clockid_t id, struct timespec *now) {
  static reader read;
  struct timespec steady;
  if (!read) read = (reader)dlsym(RTLD_NEXT, "clock_gettime");
  int code = read(id, now);
  read(CLOCK_MONOTONIC, &steady);
  if (id == CLOCK_REALTIME) now->tv_sec += steady.tv_nsec < 500000000 ? 3 : -3;
  return code;
}
time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
int gettimeofday(struct timeval *out, void *zone) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  out->tv_sec = now.tv_sec;
  out->tv_usec = now.tv_nsec / 1000;
  return 0;
}
"""


@pytest.mark.slow
def test_a_clock_that_jumps_changes_nothing(tmp_path):
  """By seconds: TensorFlow waits until a time of day in places, so that days would stop it for days."""
  compiler = shutil.which("cc")
  if not compiler:
    pytest.skip("A clock that jumps has to be compiled.")
  library = tmp_path / "clock.so"
  subprocess.run(
    [compiler, "-shared", "-fPIC", "-xc", "-", "-o", str(library), "-ldl"],
    input=JUMPING_CLOCK, text=True, check=True,
  )  # fmt: skip
  jumping = {**os.environ, "LD_PRELOAD": str(library)}
  times = subprocess.run(
    [sys.executable, "-c", "import time\nfor _ in range(9): print(time.time()); time.sleep(0.2)"],
    env=jumping, capture_output=True, text=True, check=True,
  ).stdout.split()  # fmt: skip
  assert [float(t) for t in times] != sorted(map(float, times))  # it does jump

  resume.run(tmp_path, "steady", "--algo=scaffold")
  ended = subprocess.run(
    resume.command(tmp_path, "jumping", "--algo=scaffold"),
    cwd=ROOT, env=jumping, capture_output=True, text=True, timeout=300,
  )  # fmt: skip
  assert ended.returncode == 0, ended.stderr
  resume.assert_same_run(tmp_path / "steady", tmp_path / "jumping")
  with (tmp_path / "jumping" / "metrics.csv").open(newline="") as file:
    spent = [float(v) for row in csv.DictReader(file) for k, v in row.items() if "seconds" in k]
  assert min(spent) >= 0
  assert max(spent) < 300


def test_nothing_asks_what_time_it_is():
  """Durations are taken from a clock that cannot jump.

  Only the benchmark compares two processes' clocks, `list_runs.py --older_than` the dates of files, and
  MLflow wants the date of every value.
  """
  askers = set()
  for path in (
    p for part in ("tff_momentum", "tasks", "experiments") for p in (ROOT / part).rglob("*.py")
  ):
    for node in ast.walk(ast.parse(path.read_text())):
      if isinstance(node, ast.Attribute) and ast.unparse(node) in ("time.time", "datetime.now"):
        askers.add(path.relative_to(ROOT).as_posix())
  assert askers <= {
    "experiments/benchmark.py",
    "experiments/benchmarks/worker.py",
    "experiments/list_runs.py",
    "experiments/training/hooks/mlflow_tracker.py",
  }
