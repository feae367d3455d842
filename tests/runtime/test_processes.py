"""Tests that need their own processes: how TFF's worker ends, and how clients spread over devices."""

import json
import subprocess
import sys

import pytest

from tests import ROOT
from tests.helpers import worker_endings
from tff_momentum import runtime


def _run(module: str) -> subprocess.CompletedProcess:
  return subprocess.run(
    [sys.executable, "-m", module], cwd=ROOT, capture_output=True, text=True, timeout=300
  )


@pytest.mark.slow
def test_the_worker_ends_with_its_program():
  done = _run("tests.helpers.worker_endings")
  assert done.returncode == 0, done.stderr
  lines = [line.split() for line in done.stdout.splitlines()]
  assert [(name, left) for name, _, left, *_ in lines] == [(e, "0") for e in worker_endings.ENDINGS]
  assert "Exception ignored" not in done.stderr


def test_a_worker_that_does_not_come_up_is_reported():
  with pytest.raises(RuntimeError, match=r"answer on port \d+ within 0 s.*inprocess"):
    runtime.create_worker_context(startup_seconds=0.0)


@pytest.mark.slow
def test_logical_devices_share_the_clients_and_agree_to_the_bit():
  done = _run("tests.helpers.device_rounds")
  assert done.returncode == 0, done.stderr
  results = [json.loads(line) for line in done.stdout.splitlines()]
  assert [result["devices"] for result in results] == [8, 8, 4, 4, 2, 2, 1, 1]
  assert len({result["digest"] for result in results}) == 1
  for result in results:
    assert set(result["counts"]) <= {f"CPU:{i}" for i in range(result["devices"])}
    assert sum(result["counts"].values()) == 12


def test_tensorflow_starts_at_the_first_computation():
  done = _run("tests.helpers.late_devices")
  assert done.returncode == 0, done.stderr
  found = json.loads(done.stdout)
  assert (found["answer"], found["threads"]) == (42, 3)
  assert found["devices"] == ["CPU:0", "CPU:1", "CPU:2", "CPU:3"]
  for mistake, expected in zip(
    [*found["mistakes"], found["too late"]],
    [
      "RuntimeError: Expected at least one GPU",
      "ValueError: Expected devices among ['/device:CPU:0'], found ['/device:CPU:3']",
      "ValueError: Expected devices to be",
      "ValueError: Expected max_clients_in_flight to be at least the number of devices, 1, found 0",
      "RuntimeError: Expected 5 logical CPU devices, found 4",
    ],
    strict=True,
  ):
    assert mistake.startswith(expected)


@pytest.mark.slow
def test_a_round_takes_little_longer_than_the_best_schedule():
  done = _run("tests.helpers.waiting_clients")
  assert done.returncode == 0, done.stderr
  for result in map(json.loads, done.stdout.splitlines()):
    print(f"\n{result}")
    assert result["right"]
    assert result["found"] < 1.15 * result["best"]
