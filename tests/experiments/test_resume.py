"""Runs that are killed, stopped and resumed, in real processes; what they leave behind."""

import csv
import json
import random
import signal
import subprocess
import sys
import time

import numpy as np
import pytest

from tests.helpers import forked_runs

ROUNDS = 24


def flags(folder, name, *more):
  return ["--task=digits", "--num_clients=30", "--quiet", f"--total_rounds={ROUNDS}",
          "--rounds_per_checkpoint=5", f"--root_output_dir={folder}", f"--experiment_name={name}",
          *more]  # fmt: skip


def command(folder, name, *more):
  """The command line of a cold start."""
  return [sys.executable, "experiments/run.py", *flags(folder, name, *more)]


def run(folder, name, *more):
  ended = forked_runs.run(*flags(folder, name, *more))
  assert ended.returncode == 0, ended.output
  return ended


def start_and_stop(folder, name, *more, rows, with_signal, delay=0.0):
  """Starts a run and sends it a signal when `metrics.csv` has that many rounds, or a little later."""
  running = forked_runs.Running(*flags(folder, name, *more))
  deadline = time.monotonic() + 200
  while (
    running.process.poll() is None
    and finished_rounds(folder / name) < rows
    and time.monotonic() < deadline
  ):
    time.sleep(0.005)
  time.sleep(delay)
  if running.process.poll() is None:
    running.process.send_signal(with_signal)
  return running.wait()


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
  assert (a / "model_last").exists() == (b / "model_last").exists()
  for name in ("model_last", "model_best") if (a / "model_last").exists() else ():
    with np.load(a / name / "weights.npz") as x, np.load(b / name / "weights.npz") as y:
      assert all(np.array_equal(x[key], y[key]) for key in x.files)
  last = sorted(p.name for p in (a / "checkpoints").glob("0*"))[-1]
  for part in ("server", "clients"):
    assert (a / "checkpoints" / last / part).read_bytes() == (
      b / "checkpoints" / last / part
    ).read_bytes()


CASES = {
  "stateful and compressed": [
    "--algo=scaffold",
    "--compression=qsgd:8",
    "--transform=fedinit+fedexp",
    "--client_clip_norm=1",
  ],
  "stateless": ["--algo=mime"],
  "private": [
    "--algo=mime",
    "--aggregator=dp(noise_multiplier=0.3, clip=1)",
    "--client_eval_period=4",
  ],
  "robust": ["--algo=scaffold", "--aggregator=robust()"],
  "all data in one place": ["--algo=centralised", "--client_eval_period=5"],
  "every client alone": ["--algo=local_only", "--client_eval_period=5", "--rounds_per_eval=3"],
  "stateful, by examples": ["--algo=fedhbm"],
  "asynchronous": ["--algo=autofedgm", "--client_steps_law=uniform(1, 6)", "--dropout_rate=0.1"],
}


def kill_often(folder, arguments, moments):
  """Kills a run when it has so many rounds, and so many seconds later; returns the rounds it then had."""
  run(folder, "whole", *arguments)
  reached = []
  for moment, delay in moments:
    ended = start_and_stop(
      folder, "killed", *arguments, rows=moment, with_signal=signal.SIGKILL, delay=delay
    )
    assert ended.returncode == -signal.SIGKILL, ended.output
    reached.append(finished_rounds(folder / "killed"))
  run(folder, "killed", *arguments)
  assert_same_run(folder / "whole", folder / "killed")
  return reached


def test_a_killed_run_resumes_to_the_same_bits(tmp_path):
  kill_often(tmp_path, CASES["stateful and compressed"], [(3, 0), (17, 0)])


@pytest.mark.parametrize("case", ["private", "all data in one place", "every client alone"])
def test_a_stopped_run_resumes_to_the_same_bits(tmp_path, case):
  """Aggregators' states, the stream of epochs and the clients' own models are in the checkpoint."""
  run(tmp_path, "whole", *CASES[case])
  run(tmp_path, "stopped", *CASES[case], "--total_rounds=11")
  run(tmp_path, "stopped", *CASES[case])
  whole, stopped = rows(tmp_path / "whole"), rows(tmp_path / "stopped")
  evaluated = ("eval/", "client_eval/")  # the last round of the shorter run is always evaluated
  stopped[10] = {k: whole[10][k] if k.startswith(evaluated) else v for k, v in stopped[10].items()}
  assert whole == stopped


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES)
def test_a_run_killed_at_many_random_instants_resumes_to_the_same_bits(tmp_path, case):
  rng = random.Random(case)
  moments = sorted((rng.randrange(57), rng.uniform(0, 0.1)) for _ in range(20))
  reached = kill_often(tmp_path, [*CASES[case], "--total_rounds=60"], moments)
  print(f"\n{case}: killed after rounds {reached}")


def assert_speaks_of_one_round(folder, number):
  """Summary, metrics, configuration and exported models are those of the same round."""
  found = rows(folder)
  assert [int(row["round"]) for row in found] == list(range(1, number + 1))
  summary = json.loads((folder / "summary.json").read_text())
  assert summary["rounds"] == number
  assert summary["last eval/accuracy"] == float(found[-1]["eval/accuracy"])
  assert json.loads((folder / "config.json").read_text())["total_rounds"] == number
  evaluated = {int(r["round"]): float(r["eval/accuracy"]) for r in found if r["eval/accuracy"]}
  for name, expected in (("last", number), ("best", max(evaluated, key=lambda t: evaluated[t]))):
    about = json.loads((folder / f"model_{name}" / "about.json").read_text())
    assert about["round"] == expected
    assert (about["metric"], about["score"]) == ("eval/accuracy", evaluated[expected])
    assert about["evaluation"]["eval/loss"] == float(found[expected - 1]["eval/loss"])
  assert_exports_evaluate_alike(folder)


@pytest.mark.parametrize("asked", [7, 10, 13])  # below, at and above the checkpoint
def test_a_killed_run_that_is_shortened_speaks_of_one_round(tmp_path, asked):
  arguments = ["--algo=scaffold", "--rounds_per_eval=3", "--rounds_per_checkpoint=10"]
  ended = start_and_stop(
    tmp_path, "killed", *arguments, "--total_rounds=500", rows=14, with_signal=signal.SIGKILL
  )
  assert ended.returncode == -signal.SIGKILL, ended.output
  checkpoint = max(int(p.name) for p in (tmp_path / "killed" / "checkpoints").glob("0*"))
  shift = checkpoint - 10  # usually 0; more if the machine was slow to kill the run
  reached, asked = max(asked + shift, checkpoint), asked + shift
  said = run(tmp_path, "killed", *arguments, f"--total_rounds={asked}").output
  assert (f"it ends at round {checkpoint}" in said) == (asked < checkpoint)
  assert f"Finished {reached} rounds" in said
  assert_speaks_of_one_round(tmp_path / "killed", reached)

  # It equals a run of that length from the start, and nothing is lost when it goes on.
  run(tmp_path, "whole", *arguments, f"--total_rounds={reached}")
  assert_same_run(tmp_path / "whole", tmp_path / "killed")
  if asked < checkpoint:
    for name in ("whole", "killed"):
      run(tmp_path, name, *arguments, f"--total_rounds={checkpoint + 8}")
      assert_speaks_of_one_round(tmp_path / name, checkpoint + 8)
    assert_same_run(tmp_path / "whole", tmp_path / "killed")


def test_a_run_that_goes_on_after_its_end_has_no_summary_until_its_new_end(tmp_path):
  arguments = ["--algo=fedavg", "--lean", "--rounds_per_checkpoint=4"]
  run(tmp_path, "one", *arguments, "--total_rounds=4")
  assert json.loads((tmp_path / "one" / "summary.json").read_text())["rounds"] == 4
  longer = [*arguments, "--total_rounds=100000"]
  start_and_stop(tmp_path, "one", *longer, rows=6, with_signal=signal.SIGKILL)
  assert not (tmp_path / "one" / "summary.json").exists()
  config = json.loads((tmp_path / "one" / "config.json").read_text())
  assert config["total_rounds"] == 100000


def test_ctrl_c_ends_the_round_and_says_how_to_go_on(tmp_path):
  arguments = ["--algo=fedavg", "--client_states=disk"]
  endless = [*arguments, "--total_rounds=1000000"]
  code, output = start_and_stop(tmp_path, "one", *endless, rows=2, with_signal=signal.SIGINT)
  assert code == 130
  assert "run the same command to resume" in output
  assert "Traceback" not in output
  stopped = finished_rounds(tmp_path / "one")
  assert stopped >= 2
  more = [*arguments, f"--total_rounds={stopped + 5}"]
  assert f"Finished {stopped + 5} rounds" in run(tmp_path, "one", *more).output
  assert [int(row["round"]) for row in rows(tmp_path / "one")] == list(range(1, stopped + 6))

  # The same command once more has nothing to do; another configuration is refused by name.
  assert "is complete" in run(tmp_path, "one", *more).output
  other = forked_runs.run(*flags(tmp_path, "one", *more, "--seed=9"))
  assert other.returncode == 2
  assert "seed was 1 and is now 9" in other.output

  read_back_tensorboard(tmp_path / "one")
  assert_exports_evaluate_alike(tmp_path / "one")


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


PLAIN_KERAS = """
import sys, json
import numpy as np, tensorflow as tf
images, labels, folder = np.load(sys.argv[1])["images"], np.load(sys.argv[1])["labels"], sys.argv[2]
found = {}
for name in ("model_last", "model_best"):
  saved = tf.keras.models.load_model(f"{folder}/{name}/saved_model")
  rebuilt = tf.keras.Sequential(
    [tf.keras.layers.Dense(64, activation="relu", input_shape=(64,)), tf.keras.layers.Dense(10)])
  rebuilt.load_weights(f"{folder}/{name}/keras.weights.h5")
  for kind, model in (("saved model", saved), ("weights", rebuilt)):
    found[f"{name}, {kind}"] = float(np.mean(model.predict(images, verbose=0).argmax(-1) == labels))
assert not {"tff_momentum", "tasks", "experiments", "tensorflow_federated"} & set(sys.modules)
print(json.dumps(found))
"""


def assert_exports_evaluate_alike(folder):
  """Plain Keras, in a process without this library, finds the accuracies that the run has written."""
  from tasks import digits

  images, labels = digits.read()
  test = digits.held_out(labels)
  np.savez(folder.parent / "test.npz", images=images[test], labels=labels[test])
  result = subprocess.run(
    [sys.executable, "-c", PLAIN_KERAS, str(folder.parent / "test.npz"), str(folder)],
    capture_output=True, text=True, cwd=folder)  # fmt: skip
  assert result.returncode == 0, result.stderr
  found = json.loads(result.stdout.splitlines()[-1])
  evaluated = [float(row["eval/accuracy"]) for row in rows(folder) if row["eval/accuracy"]]
  for kind in ("saved model", "weights"):
    assert found[f"model_last, {kind}"] == pytest.approx(evaluated[-1], abs=1e-6)
    assert found[f"model_best, {kind}"] == pytest.approx(max(evaluated), abs=1e-6)


def test_profile_and_labels_are_there_for_tensorboard(tmp_path):
  from tensorboard.backend.event_processing import event_accumulator

  run(tmp_path, "one", "--algo=fedavg", "--total_rounds=4", "--profile=2")
  board = tmp_path / "one" / "tensorboard"
  (trace,) = (board / "plugins" / "profile").glob("*/*.xplane.pb")
  assert trace.stat().st_size > 10_000
  events = event_accumulator.EventAccumulator(str(board / "labels"))
  events.Reload()
  width, height, image = events.Tensors("labels by client")[0].tensor_proto.string_val
  assert (int(width), int(height)) == (1080, 540)
  assert image.startswith(b"\x89PNG")


def test_two_processes_cannot_use_one_folder(tmp_path):
  from experiments.runs import folder as output

  config = {"experiment_name": "one", "seed": 1}
  folder = output.RunFolder.open(str(tmp_path), config)
  with pytest.raises(ValueError, match="in use by another process"):
    output.RunFolder.open(str(tmp_path), config)
  folder.close()
  output.RunFolder.open(str(tmp_path), config).close()
  again = output.RunFolder.open(str(tmp_path), config, restart=True)
  assert again.path.name == "one_2"
  again.close()
