"""Weights & Biases and MLflow, in their offline modes; skipped where a package is not installed."""

import importlib.util
import json
import os
import subprocess
import sys

import pytest

from experiments.cli import errors, tracking
from experiments.runs import reader, tracked_runs
from experiments.training.hooks.tracker import Tracker
from tests import ROOT
from tff_momentum.simulation.loop import Round
from tff_momentum.simulation.trainer import train

NAME = "digits_fedavgm_1"


def installed(name):
  return importlib.util.find_spec(name) is not None


def run(folder, *flags, rounds=3, **environment):
  """Runs run.py from `folder`, offline."""
  command = ["--task=digits", "--algo=fedavgm", "--lean", "--quiet", f"--total_rounds={rounds}"]
  return subprocess.run(
    [sys.executable, str(ROOT / "experiments/run.py"), *command, *flags],
    cwd=folder,
    capture_output=True,
    text=True,
    timeout=300,
    env={**os.environ, "WANDB_MODE": "offline", **environment},
  )


# Without the packages.


@pytest.mark.parametrize("name", tracking.TRACKERS)
def test_a_missing_package_is_one_sentence(name, monkeypatch):
  monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
  with pytest.raises(
    errors.UserError, match=rf"--track={name} needs .* not installed; pip install"
  ):
    tracking.check([name])


@pytest.mark.parametrize("name", tracking.TRACKERS)
def test_a_missing_package_ends_the_program_before_tensorflow(name, tmp_path):
  if installed(name):
    pytest.skip(f"{name} is installed")
  done = run(tmp_path, f"--track={name}", PYTHONPROFILEIMPORTTIME="1")
  assert done.returncode == 2
  assert "tensorflow.python" not in done.stderr
  said = [line for line in done.stderr.splitlines() if not line.startswith("import time:")]
  assert len(said) == 1
  assert said[0].startswith(f"run.py: --track={name} needs the package of")
  assert not (tmp_path / "runs").exists()


def test_another_tracker_is_refused(tmp_path):
  done = run(tmp_path, "--track=wandbb")
  assert done.returncode == 2
  assert done.stderr == (
    "run.py: --track must name wandb or mlflow, or both as in wandb,mlflow; found 'wandbb' "
    "(did you mean wandb?).\n"
  )


class Recorded(Tracker):
  title = "Recorded"

  def __init__(self, total_rounds, fails_at=None):
    super().__init__(total_rounds)
    self.sent, self.outcome, self._fails_at = [], None, fails_at

  def send(self, finished):
    if finished.number == self._fails_at:
      raise ConnectionError("no\nanswer")
    self.sent.append(finished.number)

  def close(self, outcome):
    self.outcome = outcome


def rounds(*losses):
  return (Round(t, None, {"train/loss": loss}) for t, loss in enumerate(losses))


@pytest.mark.parametrize(
  ("losses", "outcome"),
  [
    ((1.0, 0.5), "finished"),
    ((1.0,), "stopped"),
    ((1.0, float("inf")), "diverged"),
    ((), "stopped"),
  ],
)
def test_the_outcome_of_a_run(losses, outcome):
  hook = Recorded(total_rounds=2)
  train(rounds(*losses), [hook])
  assert hook.outcome == outcome
  assert hook.sent == list(range(len(losses)))


def test_a_tracker_that_fails_does_not_end_the_run(capsys):
  hook = Recorded(total_rounds=3, fails_at=1)
  assert train(rounds(1.0, 0.5, 0.2), [hook]).number == 2
  assert hook.sent == [0]
  assert hook.outcome is None
  assert capsys.readouterr().err == "Recorded failed (no answer); the run goes on without it.\n"


def test_the_notes_of_trackers_do_not_disturb_each_other(tmp_path):
  assert tracked_runs.read(tmp_path, "wandb") == {}
  tracked_runs.write(tmp_path, "wandb", {"id": "a"})
  tracked_runs.write(tmp_path, "mlflow", {"run_id": "b"})
  assert tracked_runs.read(tmp_path, "wandb") == {"id": "a"}
  assert tracked_runs.read(tmp_path, "mlflow") == {"run_id": "b"}


# With them.


def wandb_records(path):
  """The id, the configuration and the rows of an offline run's file."""
  from wandb.proto import wandb_internal_pb2
  from wandb.sdk.internal import datastore

  store, found, config, rows = datastore.DataStore(), None, {}, []
  store.open_for_scan(str(path))
  while (data := store.scan_data()) is not None:
    record = wandb_internal_pb2.Record()
    record.ParseFromString(data)
    if record.HasField("run"):
      found = record.run.run_id
      config = {item.key: json.loads(item.value_json) for item in record.run.config.update}
    if record.HasField("history"):
      items = record.history.item
      rows.append({i.key or "/".join(i.nested_key): json.loads(i.value_json) for i in items})
  return found, config, rows


@pytest.mark.skipif(not installed("wandb"), reason="Weights & Biases is not installed")
def test_weights_and_biases_gets_every_row_and_a_resumed_run_has_the_same_id(tmp_path):
  first = run(tmp_path, "--track=wandb", rounds=2)
  assert first.returncode == 0, first.stderr
  assert first.stderr == ""  # --quiet
  second = run(tmp_path, "--track=wandb", rounds=4)
  assert second.returncode == 0, second.stderr
  folder = tmp_path / "runs" / NAME
  files = sorted(folder.glob("wandb/offline-run-*/*.wandb"), key=lambda path: path.stat().st_mtime)
  parts = [wandb_records(path) for path in files]
  assert [name for name, _, _ in parts] == [tracked_runs.read(folder, "wandb")["id"]] * 2
  assert parts[0][1]["algo"] == "fedavgm"
  assert parts[0][1]["hyperparameters"]["beta"] == 0.9
  columns = reader.read_metrics(folder / "metrics.csv")
  rows = [row for _, _, found in parts for row in found]
  for name in ("round", "train/loss", "eval/accuracy", "bytes/total"):
    assert [row[name] for row in rows] == pytest.approx(list(columns[name]), rel=1e-6)


@pytest.mark.skipif(not installed("mlflow"), reason="MLflow is not installed")
def test_mlflow_gets_every_row_and_a_resumed_run_continues_from_another_folder(tmp_path):
  import mlflow

  first = run(tmp_path, "--track=mlflow", rounds=2)
  assert first.returncode == 0, first.stderr
  folder = tmp_path / "runs" / NAME
  noted = tracked_runs.read(folder, "mlflow")
  client = mlflow.MlflowClient(noted["tracking_uri"])
  assert client.get_run(noted["run_id"]).info.status == "FINISHED"
  (tmp_path / "elsewhere").mkdir()
  second = run(
    tmp_path / "elsewhere", "--track=mlflow", f"--root_output_dir={tmp_path / 'runs'}", rounds=4
  )
  assert second.returncode == 0, second.stderr
  assert tracked_runs.read(folder, "mlflow") == noted
  assert not (tmp_path / "elsewhere/mlruns").exists()
  found = client.get_run(noted["run_id"])
  assert found.info.run_name == NAME
  assert found.data.params["hyperparameters.beta"] == "0.9"
  assert found.data.params["task"] == "digits"
  columns = reader.read_metrics(folder / "metrics.csv")
  for name in ("train/loss", "eval/accuracy", "clients", "clients/non_finite"):
    history = client.get_metric_history(noted["run_id"], name.replace("/", "."))
    assert [metric.step for metric in history] == [1, 2, 3, 4]
    assert [metric.value for metric in history] == pytest.approx(list(columns[name]), rel=1e-6)


@pytest.mark.skipif(not installed("mlflow"), reason="MLflow is not installed")
def test_an_mlflow_that_does_not_answer_is_one_sentence(tmp_path):
  done = run(
    tmp_path,
    "--track=mlflow",
    MLFLOW_TRACKING_URI="http://127.0.0.1:9",
    MLFLOW_HTTP_REQUEST_MAX_RETRIES="0",
  )
  assert done.returncode == 2
  assert "run.py: MLflow does not start with http://127.0.0.1:9" in done.stderr
  assert "Traceback" not in done.stderr


@pytest.mark.skipif(not installed("wandb"), reason="Weights & Biases is not installed")
def test_weights_and_biases_without_an_account_is_one_sentence(tmp_path):
  done = run(tmp_path, "--track=wandb", WANDB_MODE="online", HOME=str(tmp_path), WANDB_API_KEY="")
  assert done.returncode == 2
  assert "run.py: Weights & Biases does not start" in done.stderr
  assert "WANDB_MODE=offline" in done.stderr
  assert "Traceback" not in done.stderr
