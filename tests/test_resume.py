"""Runs that are killed, stopped and resumed, in real processes; what they leave behind."""

import csv
import json
import pathlib
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
ROUNDS = 24


def command(folder, name, *more):
  return [sys.executable, "experiments/run.py", "--task=digits", "--num_clients=30", "--quiet",
          f"--total_rounds={ROUNDS}", "--rounds_per_checkpoint=5", f"--root_output_dir={folder}",
          f"--experiment_name={name}", *more]  # fmt: skip


def run(folder, name, *more):
  result = subprocess.run(
    command(folder, name, *more), cwd=ROOT, capture_output=True, text=True, timeout=300
  )
  assert result.returncode == 0, result.stderr
  return result


def start_and_stop(folder, name, *more, rows, with_signal):
  """Starts a run and sends it a signal when `metrics.csv` has that many rounds; its exit code and output."""
  process = subprocess.Popen(
    command(folder, name, *more),
    cwd=ROOT,
    stdout=subprocess.PIPE,
    stderr=subprocess.STDOUT,
    text=True,
  )
  deadline = time.monotonic() + 200
  while (
    process.poll() is None and finished_rounds(folder / name) < rows and time.monotonic() < deadline
  ):
    time.sleep(0.005)
  process.send_signal(with_signal)
  output, _ = process.communicate(timeout=120)
  return process.returncode, output


def finished_rounds(folder):
  path = folder / "metrics.csv"
  return max(path.read_text().count("\n") - 1, 0) if path.exists() else 0


def rows(folder):
  """All numbers of `metrics.csv` but the timings."""
  with open(folder / "metrics.csv", newline="") as file:
    return [
      {k: v for k, v in row.items() if not k.startswith("seconds/")} for row in csv.DictReader(file)
    ]


def assert_same_run(a, b):
  assert rows(a) == rows(b)
  for name in ("model_last", "model_best"):
    with np.load(a / name / "weights.npz") as x, np.load(b / name / "weights.npz") as y:
      assert all(np.array_equal(x[key], y[key]) for key in x.files)
  last = sorted(p.name for p in (a / "checkpoints").glob("0*"))[-1]
  for part in ("server", "clients"):
    assert (a / "checkpoints" / last / part).read_bytes() == (
      b / "checkpoints" / last / part
    ).read_bytes()


CASES = {
  "stateful and compressed": ["--algo=scaffold", "--compression=qsgd:8"],
  "stateless": ["--algo=mime"],
  "stateful, by examples": ["--algo=fedhbm"],
}


def kill_often(folder, arguments, moments):
  run(folder, "whole", *arguments)
  for moment in moments:
    start_and_stop(folder, "killed", *arguments, rows=moment, with_signal=signal.SIGKILL)
  run(folder, "killed", *arguments)
  assert_same_run(folder / "whole", folder / "killed")


def test_a_killed_run_resumes_to_the_same_bits(tmp_path):
  kill_often(tmp_path, CASES["stateful and compressed"], [3, 17])


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_run_killed_at_many_random_instants_resumes_to_the_same_bits(tmp_path, case):
  rng = random.Random(case)
  kill_often(tmp_path, CASES[case], sorted(rng.randrange(1, ROUNDS) for _ in range(20)))


def test_ctrl_c_ends_the_round_and_says_how_to_go_on(tmp_path):
  arguments = ["--algo=fedavg", "--client_states=disk"]
  endless = [*arguments, "--total_rounds=1000000"]
  code, output = start_and_stop(tmp_path, "one", *endless, rows=2, with_signal=signal.SIGINT)
  assert code == 130
  assert "run the same command again" in output
  assert "Traceback" not in output
  stopped = finished_rounds(tmp_path / "one")
  assert stopped >= 2
  more = [*arguments, f"--total_rounds={stopped + 5}"]
  assert f"Final evaluation after {stopped + 5} rounds" in run(tmp_path, "one", *more).stdout
  assert [int(row["round"]) for row in rows(tmp_path / "one")] == list(range(1, stopped + 6))

  # The same command once more has nothing to do; another configuration is refused by name.
  assert "is complete" in run(tmp_path, "one", *more).stdout
  other = subprocess.run(
    command(tmp_path, "one", *more, "--seed=9"), cwd=ROOT, capture_output=True, text=True
  )
  assert other.returncode == 2
  assert "seed was 1 and is now 9" in other.stderr

  read_back_tensorboard(tmp_path / "one")
  load_in_plain_keras(tmp_path / "one")


def read_back_tensorboard(folder):
  from tensorboard.backend.event_processing import event_accumulator

  events = event_accumulator.EventAccumulator(
    str(folder / "tensorboard"), size_guidance={event_accumulator.TENSORS: 0}
  )
  events.Reload()
  with open(folder / "metrics.csv", newline="") as file:
    written = list(csv.DictReader(file))
  for column in written[0]:
    if column == "round":
      continue
    found = {e.step: float(np.frombuffer(e.tensor_proto.tensor_content or b"", np.float32)[0])
             if e.tensor_proto.tensor_content else
             (list(e.tensor_proto.float_val) or list(e.tensor_proto.double_val) or
              list(e.tensor_proto.int_val) or list(e.tensor_proto.int64_val))[0]
             for e in events.Tensors(column)}  # fmt: skip
    for row in written:
      if row[column] != "":
        assert found[int(row["round"])] == pytest.approx(float(row[column]), rel=1e-5), column


def load_in_plain_keras(folder):
  code = """
import sys, json
import numpy as np, tensorflow as tf
from sklearn import datasets
model = tf.keras.models.load_model(sys.argv[1])
assert not any(name.startswith("tff_momentum") for name in sys.modules)
print(json.dumps(sum(w.size for w in model.get_weights())))
"""
  result = subprocess.run(
    [sys.executable, "-c", code, str(folder / "model_last" / "saved_model")],
    capture_output=True, text=True, cwd=folder)  # fmt: skip
  assert result.returncode == 0, result.stderr
  with np.load(folder / "model_last" / "weights.npz") as file:
    assert json.loads(result.stdout.splitlines()[-1]) == sum(file[name].size for name in file.files)


def test_two_processes_cannot_use_one_folder(tmp_path):
  from experiments import output

  config = {"experiment_name": "one", "seed": 1}
  folder = output.RunFolder.open(str(tmp_path), config)
  with pytest.raises(ValueError, match="in use by another process"):
    output.RunFolder.open(str(tmp_path), config)
  folder.close()
  output.RunFolder.open(str(tmp_path), config).close()
  again = output.RunFolder.open(str(tmp_path), config, restart=True)
  assert again.path.name == "one_2"
  again.close()
