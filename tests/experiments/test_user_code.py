"""A user's project outside the repository: its algorithm and its task in every program, as real processes."""

import csv
import json
import os
import shutil
import signal
import subprocess
import sys
import time

import pytest

from tests import ROOT

ALGO, TASK = "my_research.momentum:server_momentum", "my_research.plane:load"
NAME = "my_research.plane.load_my_research.momentum.server_momentum_1"


@pytest.fixture(scope="module")
def project(tmp_path_factory):
  """A copy of the user's project, with a `tasks.py` that must not hide ours."""
  folder = tmp_path_factory.mktemp("user") / "project"
  shutil.copytree(ROOT / "tests/helpers/user_project", folder)
  (folder / "tasks.py").write_text("raise SystemExit('the wrong module was imported')\n")
  return folder


def command(program, *flags):
  return [sys.executable, str(ROOT / "experiments" / program), *flags]


def environment():
  found = {key: value for key, value in os.environ.items() if key != "PYTHONPATH"}
  return {**found, "TF_CPP_MIN_LOG_LEVEL": "3"}


def start(folder, program, *flags, code=0):
  result = subprocess.run(
    command(program, *flags),
    cwd=folder,
    env=environment(),
    capture_output=True,
    text=True,
    timeout=600,
  )
  assert result.returncode == code, result.stdout + result.stderr
  return result


def run(folder, *flags, **options):
  return start(
    folder, "run.py", f"--task={TASK}", f"--algo={ALGO}", "--quiet", "--lean", *flags, **options
  )


def numbers(folder):
  """The rows of metrics.csv without the times."""
  with open(folder / "metrics.csv") as file:
    return [
      {k: v for k, v in r.items() if not k.startswith("seconds")} for r in csv.DictReader(file)
    ]


@pytest.fixture(scope="module")
def finished(project):
  run(project, "--total_rounds=12", "--set", "beta=0.4", "--task_set", "spread=0.8")
  return project / "runs" / NAME


def test_a_run_records_every_hyperparameter_and_option(finished):
  config = json.loads((finished / "config.json").read_text())
  assert (config["task"], config["algo"]) == (TASK, ALGO)
  assert config["hyperparameters"] == {
    "client_learning_rate": 0.2,
    "beta": 0.4,
    "variant": "heavy_ball",
  }
  assert config["task_details"] == {"num_clients": 12, "spread": 0.8, "points_per_client": 30}
  assert float(numbers(finished)[-1]["eval/accuracy"]) > 0.75


def test_from_config_repeats_it(project, finished):
  start(project, "run.py", f"--from_config={finished}", "--quiet", "--lean")
  assert numbers(project / "runs" / f"{NAME}_again") == numbers(finished)


@pytest.mark.slow
def test_a_killed_run_resumes_to_the_same_bits(project, finished):
  flags = (f"--task={TASK}", f"--algo={ALGO}", "--quiet", "--lean", "--experiment_name=killed",
           "--total_rounds=12", "--set=beta=0.4", "--task_set=spread=0.8",
           "--rounds_per_checkpoint=2")  # fmt: skip
  process = subprocess.Popen(
    command("run.py", *flags), cwd=project, env=environment(), stdout=subprocess.DEVNULL
  )
  checkpoints, deadline = project / "runs/killed/checkpoints", time.monotonic() + 300
  while not list(checkpoints.glob("0*")) and time.monotonic() < deadline:
    time.sleep(0.01)
  process.send_signal(signal.SIGKILL)
  process.wait()
  assert not (project / "runs/killed/summary.json").exists()
  start(project, "run.py", *flags)
  assert numbers(project / "runs/killed") == numbers(finished)


@pytest.mark.slow
def test_ray_actors_find_the_user_s_modules(project, finished):
  pytest.importorskip("ray")
  run(project, "--total_rounds=12", "--set", "beta=0.4", "--task_set", "spread=0.8", "--runtime=ray",
      "--experiment_name=on_ray")  # fmt: skip
  assert numbers(project / "runs/on_ray") == numbers(finished)


@pytest.mark.slow
@pytest.mark.parametrize("pool", ["--jobs=2", "--ray=local"])
def test_a_sweep_and_its_report(project, pool):
  if pool.startswith("--ray"):
    pytest.importorskip("ray")
  name = pool.strip("-").replace("=", "_")
  start(project, "sweep.py", f"--task={TASK}", "--algo=fedavg", f"--algo={ALGO}", "--total_rounds=3",
        f"--grid={ALGO}:beta=0.1,0.6", f"--sweep_name={name}", "--lean", pool)  # fmt: skip
  folders = sorted(path.parent.name for path in (project / "runs" / name).glob("*/summary.json"))
  assert len(folders) == 3
  assert all(":" not in folder for folder in folders)
  start(project, "report.py", f"runs/{name}", f"--output=report_{name}")
  page = (project / f"report_{name}" / "index.html").read_text()
  assert ALGO in page
  assert TASK in page
  assert not [path for path in (project / f"report_{name}").rglob("*") if ":" in path.name]


def test_describe_shows_the_signature(project):
  said = start(project, "describe.py", ALGO, f"--task={TASK}", "--set", "beta=0.3").stdout
  assert "Server momentum with client states" in said
  assert "on the model of plane with 82 parameters" in said
  beta = next(line for line in said.splitlines() if line.split()[:1] == ["beta"])
  assert "0.3" in beta


@pytest.mark.parametrize(
  ("flags", "sentence"),
  [
    (["--task=digits", "--algo=my_research.nowhere:x"], "expected a module my_research.nowhere"),
    (["--task=digits", "--algo=my_research.momentum:x"], "expected a function x in my_research"),
    (["--task=digits", "--algo=my_research.momentum:NOT_A_FUNCTION"], "found int 3"),
    (["--task=digits", "--algo=my_research.momentum:no_algorithm"], "to return a tff_momentum.Alg"),
    (["--task=digits", "--algo=my_research.momentum:with_a_bug"], "failed: NameError"),
    (["--task=my_research.plane:no_task", "--algo=fedavg"], "to return a tasks.task.Task; found"),
    (["--task=my_research.plane:with_required", "--algo=fedavg"], "needs --task_set path=..."),
    ([f"--task={TASK}", f"--algo={ALGO}", "--set=bta=1"], "has no 'bta' (did you mean beta?)"),
    ([f"--task={TASK}", f"--algo={ALGO}", "--set=beta=2"], "beta must be at least 0 and below 1"),
    ([f"--task={TASK}", f"--algo={ALGO}", "--task_set=sprad=2"], "has no 'sprad' (did you mean"),
  ],
)
def test_mistakes_end_with_one_sentence(project, flags, sentence):
  result = start(project, "run.py", *flags, "--total_rounds=1", code=2)
  assert sentence in result.stderr
  assert len(result.stderr.strip().splitlines()) == 1, result.stderr
