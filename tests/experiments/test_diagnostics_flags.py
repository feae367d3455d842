"""The diagnostics as users of run.py meet them: columns, resuming, refusals, and the stock runtime."""

import csv
import subprocess
import sys

import numpy as np
import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from tests import ROOT
from tests.helpers import forked_runs

COLUMNS = ["drift", "alpha", "alpha_per_client", "gradient_norm", "momentum_norm", "momentum_error",
           "momentum_cosine", "flops", "layers/hidden/kernel", "layers/hidden/bias", "layers/dense/kernel",
           "layers/dense/bias"]  # fmt: skip


def run(*arguments):
  command = [sys.executable, "experiments/run.py", "--quiet", *arguments]
  return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=300)


def warm_run(*arguments):
  ended = forked_runs.run("--quiet", *arguments)
  return subprocess.CompletedProcess(arguments, ended.returncode, ended.output, ended.output)


def on_digits(folder, rounds, *more):
  runtime = any(flag.startswith("--runtime") for flag in more)  # TFF's and Ray's start no warm runs
  result = (run if runtime else warm_run)(
    "--task=digits", "--num_clients=20", "--algo=fedavgm", f"--root_output_dir={folder}",
    "--experiment_name=it", f"--total_rounds={rounds}", "--clients_per_round=3", *more,
  )  # fmt: skip
  assert result.returncode == 0, result.stderr
  with open(folder / "it" / "metrics.csv", newline="", encoding="utf-8") as file:
    return list(csv.DictReader(file))


def test_columns_resuming_and_tensorboard(tmp_path):
  flags = ["--diagnostics=drift,alpha,gradient,flops,layers", "--diagnostics_period=2"]
  on_digits(tmp_path, 3, *flags)
  rows = on_digits(tmp_path, 4, *flags)
  names = [name.removeprefix("diagnostics/") for name in rows[0] if name.startswith("diagnostics/")]
  assert names == COLUMNS
  for number, row in enumerate(rows):
    filled = [row[f"diagnostics/{name}"] != "" for name in COLUMNS]
    assert filled == [number % 2 == 1] * len(COLUMNS)
  assert float(rows[1]["diagnostics/drift"]) > 0
  assert 0 < float(rows[1]["diagnostics/alpha_per_client"]) < 1
  board = EventAccumulator(str(tmp_path / "it" / "tensorboard"))
  board.Reload()
  assert "diagnostics/drift" in board.Tags()["tensors"] + board.Tags()["scalars"]


REFUSED = {
  "unknown": (["--task=digits", "--algo=fedavg", "--diagnostics=drft"], "diagnostics must be one of"),
  "no local steps": (
    ["--task=digits", "--algo=fedsgd", "--diagnostics=drift"],
    "the clients of this algorithm take none",
  ),
}  # fmt: skip


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_defined_is_refused_in_one_sentence(tmp_path, case):
  arguments, part = REFUSED[case]
  result = run(*arguments, f"--root_output_dir={tmp_path}")
  assert result.returncode == 2, result.stderr
  assert part in result.stderr
  assert len(result.stderr.strip().splitlines()) == 1, result.stderr


@pytest.mark.slow
@pytest.mark.parametrize("runtime", ["tff", "ray"])
def test_the_runtimes_agree(tmp_path, runtime):
  flags = [
    "--diagnostics=drift,cosine,alpha,gradient,variance,flops,dissimilarity",
    "--diagnostics_period=2",
  ]
  here = on_digits(tmp_path / "here", 2, *flags)[1]
  there = on_digits(tmp_path / "there", 2, *flags, f"--runtime={runtime}")[1]
  names = [name for name in here if name.startswith("diagnostics/")]
  np.testing.assert_allclose(
    [float(there[name]) for name in names], [float(here[name]) for name in names], rtol=1e-3
  )
