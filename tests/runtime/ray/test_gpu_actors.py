"""Actors that have GPUs get graphs made for GPUs; several of them share one."""

import json
import os
import subprocess
import sys

import pytest

from tests import ROOT

pytest.importorskip("ray")


def test_actors_with_gpus_take_the_decisions_for_gpus():
  result = subprocess.run(
    [sys.executable, "-m", "tests.helpers.gpu_actors"],
    cwd=ROOT, capture_output=True, text=True, timeout=600, env={**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3"},
  )  # fmt: skip
  assert result.returncode == 0, result.stderr[-3000:]
  lines = [json.loads(line) for line in result.stdout.splitlines() if line.startswith("{")]
  as_gpu, as_cpu = lines
  assert (as_gpu["kind"], as_gpu["actors"]) == ("GPU", 2)  # gpus_per_actor=0.5 of one GPU
  assert not as_gpu["calls_xla"]  # the gradient of max pooling is TensorFlow's
  assert as_gpu["same"]  # as in process, with the graphs for GPUs
  assert as_gpu["warnings"] == []
  # Ray gives these actors a GPU, too, but TensorFlow sees none there.
  assert (as_cpu["kind"], as_cpu["actors"]) == ("CPU", 2)
  assert as_cpu["calls_xla"]
  assert as_cpu["close"]
  (warning,) = as_cpu["warnings"]
  assert "found none in 2 of 2" in warning
