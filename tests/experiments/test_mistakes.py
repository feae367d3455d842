"""Mistakes that users make, with the real programs as processes: one sentence on stderr and nothing else.

TensorFlow's log level is not set here, so that its own words would be seen too.
"""

import os
import pathlib
import re
import signal
import subprocess
import sys
import time

import pytest

from tests import ROOT

RUN, SWEEP, REPORT, DATA = ("run.py", "sweep.py", "report.py", "data.py")
DESCRIBE, DOCTOR, CLAIMS, PLOT, BENCHMARK = (
  "describe.py", "doctor.py", "claims.py", "plot.py", "benchmark.py",
)  # fmt: skip
DIGITS = ["--task=digits", "--algo=fedavgm"]
SWEPT = ["--task=digits", "--algo=fedavg"]

# program, arguments, what the sentence says. TensorFlow is not loaded: the answer comes within seconds.
QUICK = {
  # run.py: names
  "flag": (RUN, ["--tsk=digits"], "there is no flag --tsk (did you mean --task"),
  "task": (RUN, ["--task=digts", "--algo=fedavg"], "there is no task 'digts' (did you mean digits"),
  "algorithm": (RUN, ["--task=digits", "--algo=scafold"], "did you mean scaffold"),
  "no task": (RUN, ["--algo=fedavg"], "--task is missing"),
  "no algorithm": (RUN, ["--task=digits"], "--algo is missing"),
  "nothing": (RUN, [], "--task is missing"),
  "stray word": (RUN, ["digits"], "expected only flags, as in --name=value; found 'digits'"),
  "preset": (RUN, ["--preset=ghbm/tabel1/shakespeare_mime"], "did you mean ghbm/table1/shakespeare_mime"),
  "folder of presets": (RUN, ["--preset=ghbm/table1"], "--preset must name one preset, such as"),
  "filter without presets": (RUN, ["--list_presets", "--task=diabetes", "--algo=fedhbm"], "no preset has"),
  "listed algorithm": (RUN, ["--list", "--algo=scafold"], "did you mean scaffold"),
  "no such config": (RUN, ["--from_config=nosuch"], "--from_config must name the config.json of a run"),
  "config and preset": (RUN, ["--from_config=a", "--preset=b"], "exclude each other"),
  # run.py: values
  "hyperparameter": (RUN, [*DIGITS, "--set", "bta=0.9"], "has no 'bta' (did you mean beta?)"),
  "range": (RUN, [*DIGITS, "--set", "beta=1.5"], "beta must be a finite number at least 0 and below 1"),
  "word for a number": (RUN, [*DIGITS, "--set", "beta=much"], "beta must be a number or a schedule"),
  "learning rate": (
    RUN, [*DIGITS, "--client_learning_rate=abc"], "client_learning_rate must be a number or a schedule: "),
  "negative rate": (RUN, [*DIGITS, "--client_learning_rate=-1"], "above 0; found -1"),
  "misspelt schedule": (
    RUN, [*DIGITS, "--client_learning_rate=stp(0.1, every=2)"], "Did you mean step?"),
  "choice": (RUN, ["--task=digits", "--algo=scaffold", "--set", "option=III"], "option must be one of I, II"),
  "whole number": (RUN, ["--task=digits", "--algo=ghbm", "--set", "tau=2.5"], "tau must be a whole number"),
  "truth value": (RUN, ["--task=digits", "--algo=fedadc", "--set", "nesterov=1"], "true or false"),
  "optimizer": (RUN, ["--task=digits", "--algo=mime", "--set", "optimizer=sgmd"], "Did you mean sgd?"),
  "clip norm": (RUN, [*DIGITS, "--client_clip_norm=0"], "--client_clip_norm must be above 0; found 0."),
  "aggregator": (RUN, [*DIGITS, "--aggregator=median"], "aggregator must be one of dp(…), clip(…), robust("),
  "no noise": (RUN, [*DIGITS, "--aggregator=dp(noise_multiplier=0, clip=1)"], "noise_multiplier must be a"),
  "no clip": (RUN, [*DIGITS, "--aggregator=dp(noise_multiplier=1)"], "has wrong arguments"),
  "negative norm": (RUN, [*DIGITS, "--aggregator=clip(-1)"], "norm must be a finite number above 0; found"),
  "neither": (RUN, [*DIGITS, "--aggregator=robust(zeroing=False, clipping=False)"], "zeroing or clipping"),
  "private weights": (
    RUN, ["--task=digits", "--algo=ghbm", "--aggregator=dp(noise_multiplier=1, clip=1)"],
    "gives every client the same weight; ghbm has client_weighting=num_examples"),
  "private and asynchronous": (
    RUN, [*DIGITS, "--async", "--aggregator=dp(noise_multiplier=1, clip=1)"], "is for synchronous rounds"),
  "compressed reference": (
    RUN, ["--task=digits", "--algo=centralised", "--compression=qsgd:4"],
    "--compression has no meaning for --algo=centralised, where nothing is sent or averaged"),
  "aggregated reference": (
    RUN, ["--task=digits", "--algo=local_only", "--aggregator=clip(1)"], "--aggregator has no meaning for"),
  "cohorts of nobody": (
    RUN, ["--task=digits", "--algo=centralised", "--dropout_rate=0.1"], "where all data is in one place"),
  "hyperparameter of a reference": (
    RUN, ["--task=digits", "--algo=centralised", "--set", "beta=1"], "centralised has no 'beta'"),
  "client evaluation": (RUN, [*DIGITS, "--client_eval_steps=3"], "--client_eval_steps is for --client_eval"),
  "no value": (RUN, [*DIGITS, "--set", "beta"], "--set takes name=value"),
  "twice": (RUN, [*DIGITS, "--set", "beta=0", "--set", "beta=0.5"], "is given twice"),
  "rate twice": (
    RUN, [*DIGITS, "--set", "server_learning_rate=1", "--server_learning_rate=1"], "is given twice"),
  "rate it has not": (
    RUN, ["--task=digits", "--algo=mime", "--server_learning_rate=1"], "has no 'server_learning_rate'"),
  "option of another task": (RUN, [*DIGITS, "--similarity=3"], "the task digits has no 'similarity'"),
  "not a number": (RUN, [*DIGITS, "--total_rounds=ten"], "total_rounds=ten"),
  "no rounds": (RUN, [*DIGITS, "--total_rounds=0"], "total_rounds=0"),
  "runtime": (RUN, [*DIGITS, "--runtime=gpu"], "inprocess"),
  "scale": (RUN, [*DIGITS, "--scale=2"], "scale"),
  "epochs and steps": (
    RUN, [*DIGITS, "--client_epochs_per_round=1", "--client_steps_per_round=1"], "exclude each other"),
  "distribution": (
    RUN, [*DIGITS, "--client_speed=lognormal(1)"],
    "--client_speed='lognormal(1)' has wrong arguments: lognormal missing 1 required"),
  "no distribution": (RUN, [*DIGITS, "--client_steps_law=fast"], "--client_steps_law must be a number or"),
  "trace": (RUN, [*DIGITS, "--client_speed=trace:nosuch.csv"], "must name a readable CSV file"),
  "dropout": (RUN, [*DIGITS, "--dropout_rate=1"], "--dropout_rate must be"),
  "asynchronous flag": (RUN, [*DIGITS, "--max_staleness=3"], "--max_staleness is for --async"),
  "availability": (RUN, [*DIGITS, "--availability=0.5"], "--availability is for"),
  "diagnostics": (RUN, [*DIGITS, "--diagnostics=drif"], "drift"),
  # run.py: machine
  "no devices": (RUN, [*DIGITS, "--devices=cpu:0"], "--devices must be auto, cpu, gpu, cpu:N or gpu:N"),
  "devices": (RUN, [*DIGITS, "--devices=tpu"], "--devices must be auto, cpu, gpu, cpu:N or gpu:N"),
  "address without Ray": (RUN, [*DIGITS, "--ray_address=here:1"], "--ray_address is for --runtime=ray"),
  "nobody listens": (
    RUN, [*DIGITS, "--runtime=ray", "--ray_address=127.0.0.1:9"], "Expected a Ray cluster at '127.0.0.1:9'"),
  "no port": (RUN, [*DIGITS, "--runtime=ray", "--ray_address=127.0.0.1:x"], "Expected a Ray cluster at"),
  "no data folder": (
    RUN, ["--task=emnist", "--algo=fedavg", "--data_dir={tmp}/nosuch"],
    "--data_dir must be the folder that contains tff/ and tfds/; found nothing at"),
  "data folder is a file": (
    RUN, ["--task=emnist", "--algo=fedavg", "--data_dir={tmp}/file"], "found a file at"),
  # sweep.py
  "sweep: task": (SWEEP, ["--task=digts", "--algo=fedavg"], "run.py --list shows the choices"),
  "sweep: algorithm": (SWEEP, ["--task=digits", "--algo=fedav"], "did you mean fedavg"),
  "sweep: no algorithm": (SWEEP, ["--task=digits"], "--algo is missing"),
  "sweep: algorithm twice": (SWEEP, [*SWEPT, "--algo=fedavg"], "repeats an algorithm"),
  "sweep: grid of nothing": (
    SWEEP, [*SWEPT, "--grid", "beta=1,2"], "neither fedavg nor run.py has 'beta'"),
  "sweep: bad value": (
    SWEEP, ["--task=digits", "--algo=fedavgm", "--grid", "beta=0.9,1.5", "--root_output_dir={tmp}/out"],
    "beta must be a finite number at least 0 and below 1; found 1.5"),
  "sweep: bad flag value": (
    SWEEP, [*SWEPT, "--grid", "total_rounds=5,x", "--root_output_dir={tmp}/out"], "total_rounds=x"),
  "sweep: no values": (SWEEP, [*SWEPT, "--grid", "client_learning_rate"], "--grid takes name=value,value"),
  "sweep: value twice": (SWEEP, [*SWEPT, "--grid", "client_learning_rate=1,1"], "repeats a value"),
  "sweep: seeds as a grid": (SWEEP, [*SWEPT, "--grid", "seed=1,2"], "use --seeds"),
  "sweep: seeds": (SWEEP, [*SWEPT, "--seeds=1,two"], "--seeds takes whole numbers"),
  "sweep: restart": (SWEEP, [*SWEPT, "--restart"], "--restart is for single runs"),
  "sweep: jobs": (SWEEP, [*SWEPT, "--jobs=0"], "jobs=0"),
  "sweep: preset": (SWEEP, ["--preset=ghbm/tabel1"], "did you mean ghbm/table1"),
  # the other programs
  "report: no runs": (REPORT, ["nosuch"], "expected at least one finished run; found none"),
  "report: nothing": (REPORT, [], "the following arguments are required: RUNS"),
  "describe: algorithm": (DESCRIBE, ["scafold"], "Did you mean scaffold or scaffold_m?"),
  "describe: nothing": (DESCRIBE, [], "expected the name of an algorithm; found none"),
  "describe: hyperparameter": (DESCRIBE, ["fedavgm", "--set", "bta=1"], "fedavgm has no 'bta'"),
  "describe: range": (DESCRIBE, ["fedavgm", "--set", "beta=2"], "beta must be a finite number"),
  "describe: task": (DESCRIBE, ["fedavg", "--task=digit"], "digits"),
  "data: command": (DATA, ["fetsch"], "invalid choice: 'fetsch'"),
  "data: no task": (DATA, ["fetch"], "fetch needs the name of a task"),
  "data: task": (DATA, ["verify", "emnits"], "there is no task 'emnits' (did you mean emnist"),
  "data: no folder": (DATA, ["list", "--data_dir={tmp}/nosuch"], "found nothing at"),
  "doctor: check": (DOCTOR, ["--only=nosuch"], "invalid choice: 'nosuch'"),
  "claims: nothing": (CLAIMS, [], "or --all, which takes 6 hours on two cores; found neither"),
  "claims: name": (CLAIMS, ["taw"], "did you mean tau"),
  "claims: jobs": (CLAIMS, ["tau", "--jobs=0"], "--jobs must be at least 1"),
  "claims: data": (CLAIMS, ["--all", "--data_dir={tmp}/nosuch"], "found nothing at"),
  "plot: no run": (PLOT, ["curves", "nosuch", "--column=x", "--output={tmp}/x.png"], "expected a run folder"),
  "plot: command": (PLOT, ["curve"], "invalid choice: 'curve'"),
  "plot: output": (PLOT, ["drift_surface", "--output={tmp}/nosuch/x.png"], "--output must be a .png"),
  "plot: algorithm": (PLOT, ["drift_surface", "fedav", "--output={tmp}/x.png"], "did you mean fedavg"),
  "plot: rounds": (PLOT, ["drift_surface", "--rounds=0", "--output={tmp}/x.png"], "--rounds must be a whole"),
  "benchmark: item": (BENCHMARK, ["--items=Z"], "expected names among A,B,C,D,E"),
  "benchmark: algorithm": (BENCHMARK, ["--algos=mim"], "did you mean mime"),
  "benchmark: rounds": (BENCHMARK, ["--rounds=0"], "--rounds and --warm_up must be at least 1"),
  "benchmark: file": (BENCHMARK, ["--item=A", "--json={tmp}/nosuch/x.json"], "--json must name a file"),
}  # fmt: skip

# With TensorFlow: what only a device, a builder or a data set can tell.
SLOW = {
  "no GPU": (RUN, [*DIGITS, "--devices=gpu"], 'Expected at least one GPU for devices "gpu"; found none'),
  "schedule's arguments": (
    RUN, [*DIGITS, "--client_learning_rate=step(0.1)"], "step missing 1 required keyword-only argument"),
  "transform": (
    RUN, ["--task=digits", "--algo=fedadam", "--transform=fedexp"],
    "fedexp needs an algorithm whose server steps x ← x − η E[Δ]"),
  "missing data": (
    RUN, ["--task=emnist", "--algo=fedavg", "--data_dir={tmp}/empty"],
    "get it from https://storage.googleapis.com/tff-datasets-public/emnist_all.sqlite.lzma (unpacked)"),
  "sweep: optimizer's arguments": (
    SWEEP, ["--task=digits", "--algo=mime", "--grid", "optimizer=sgdm(0.9),sgdm(2)",
            "--root_output_dir={tmp}/out"],
    "beta must be a finite number at least 0 and below 1; found 2"),
}  # fmt: skip


def started(program, arguments, **options):
  environment = {
    key: value
    for key, value in os.environ.items()
    if key not in ("TF_CPP_MIN_LOG_LEVEL", "TFM_DATA_DIR", "PYTHONWARNINGS")
  }
  command = [sys.executable, f"experiments/{program}", *arguments]
  return subprocess.Popen(
    command, cwd=ROOT, text=True, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment,
    **options,
  )  # fmt: skip


def answer(program, arguments, tmp_path, seconds):
  """Runs a program with a mistake; asserts that it ends in time with one sentence and changes nothing."""
  (tmp_path / "file").write_text("")
  (tmp_path / "empty").mkdir()
  before = sorted(tmp_path.rglob("*"))
  process = started(program, [word.format(tmp=tmp_path) for word in arguments])
  try:
    out, err = process.communicate(timeout=seconds)
  finally:
    process.kill()
  assert (process.returncode, out) == (2, ""), (out, err)
  assert re.fullmatch(rf"{program.removesuffix('.py')}(\.py)?: .+[.?)]\n", err), err
  assert sorted(tmp_path.rglob("*")) == before
  return err


def test_there_are_sixty_mistakes():
  assert len(QUICK) + len(SLOW) >= 60


@pytest.mark.parametrize("case", QUICK)
def test_a_mistake_is_one_sentence_before_tensorflow_is_loaded(case, tmp_path):
  program, arguments, said = QUICK[case]
  assert said in answer(program, arguments, tmp_path, seconds=15)


@pytest.mark.parametrize("case", SLOW)
def test_a_mistake_that_only_tensorflow_can_tell_is_one_sentence(case, tmp_path):
  program, arguments, said = SLOW[case]
  assert said in answer(program, arguments, tmp_path, seconds=120)


def rounds_of(folder: pathlib.Path) -> int:
  path = folder / "metrics.csv"
  return max(path.read_text().count("\n") - 1, 0) if path.exists() else 0


def endless(tmp_path):
  return ["--task=digits", "--algo=fedavg", "--total_rounds=1000000", "--quiet", "--lean",
          f"--root_output_dir={tmp_path}", "--experiment_name=one"]  # fmt: skip


def wait_for_rounds(process, folder, rounds=3, seconds=120):
  deadline = time.monotonic() + seconds
  while rounds_of(folder) < rounds:
    assert process.poll() is None, process.communicate()
    assert time.monotonic() < deadline
    time.sleep(0.02)


def assert_checkpoint(folder, code, out, err):
  assert code == 130, err
  assert "run the same command to resume" in out
  assert err.split("\n") == ["", "Stopping after this round, with a checkpoint.", ""], err
  (last,) = sorted(path.name for path in (folder / "checkpoints").glob("0*"))[-1:]
  assert int(last) == rounds_of(folder)


def test_ctrl_c_twice_leaves_a_checkpoint(tmp_path):
  process = started(RUN, endless(tmp_path))
  wait_for_rounds(process, tmp_path / "one")
  for _ in range(2):
    process.send_signal(signal.SIGINT)
  out, err = process.communicate(timeout=60)
  assert_checkpoint(tmp_path / "one", process.returncode, out, err)


def test_gnu_timeout_leaves_a_checkpoint(tmp_path):
  """It sends SIGTERM to its child and to the group; its own exit code says that the time was up."""
  command = ["timeout", "20", sys.executable, "experiments/run.py", *endless(tmp_path)]
  done = subprocess.run(
    command, cwd=ROOT, capture_output=True, text=True, timeout=120, start_new_session=True
  )
  assert done.returncode == 124, done.stderr
  assert_checkpoint(tmp_path / "one", 130, done.stdout, done.stderr)


def test_an_asynchronous_run_writes_nothing_on_stderr(tmp_path):
  """Its think times draw random numbers before training; no thread count may be fixed by then."""
  process = started(
    RUN,
    ["--task=digits", "--algo=autofedgm", "--total_rounds=2", "--quiet", "--lean",
     f"--root_output_dir={tmp_path}"],
  )  # fmt: skip
  out, err = process.communicate(timeout=180)
  assert (process.returncode, err) == (0, ""), err
  assert "Finished 2 rounds" in out
