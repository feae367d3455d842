"""Run folders listed, compared and cleaned."""

import fcntl
import json
import os

import pytest

from experiments import list_runs
from experiments.runs import overview


def write(folder, *, rounds=4, finished=True, diverged=False, **config):
  folder.mkdir(parents=True)
  values = {"task": "digits", "algo": "fedavg", "seed": 1, "total_rounds": 4, **config}
  (folder / "config.json").write_text(json.dumps({"experiment_name": folder.name, **values}))
  rows = [f"{t + 1},{0.5 + t / 10}\n" for t in range(rounds)]
  (folder / "metrics.csv").write_text("round,eval/accuracy\n" + "".join(rows))
  if finished:
    (folder / "summary.json").write_text(json.dumps({"rounds": rounds, "diverged": diverged}))
  return folder


@pytest.fixture
def runs(tmp_path):
  write(tmp_path / "runs" / "a", hyperparameters={"beta": 0.9, "nu": 1})
  write(tmp_path / "runs" / "b", hyperparameters={"beta": 0.5, "nu": 1}, algo="fedavgm")
  write(tmp_path / "runs" / "half", rounds=2, finished=False)
  write(tmp_path / "runs" / "sweep" / "wild", diverged=True)
  other = tmp_path / "runs" / "thesis"
  other.mkdir()
  (other / "config.json").write_text('{"not": "a run"}')
  return tmp_path / "runs"


def said(capsys, *arguments):
  assert list_runs.main([str(argument) for argument in arguments]) == 0
  return capsys.readouterr().out


def test_every_run_is_a_line(runs, capsys):
  lines = said(capsys, runs).splitlines()
  assert lines[0].split() == ["run", "task", "algo", "rounds", "final", "value", "state", "date"]
  found = {line.split()[0].rsplit("/", 1)[1]: line for line in lines[1:]}
  assert list(found) == ["a", "b", "half", "wild"]
  assert "digits  fedavgm  4/4     accuracy 0.75  finished" in found["b"]
  assert "2/4" in found["half"]
  assert "unfinished" in found["half"]
  assert "diverged" in found["wild"]


def test_a_comparison_shows_what_differs_and_nothing_else(runs, capsys):
  text = said(capsys, "compare", runs / "a", runs / "b")
  rows = {line.split("  ")[0]: line.split() for line in text.splitlines()[1:]}
  assert rows["algo"] == ["algo", "fedavg", "fedavgm"]
  assert rows["hyperparameters.beta"] == ["hyperparameters.beta", "0.9", "0.5"]
  assert set(rows) == {"algo", "hyperparameters.beta", "rounds run", "final value", "state"}


def test_clean_deletes_the_chosen_runs_only_when_told_to(runs, capsys):
  assert "1 runs would be deleted; add --yes" in said(capsys, "clean", runs, "--diverged")
  assert (runs / "sweep" / "wild").exists()
  assert "1 runs were deleted" in said(capsys, "clean", runs, "--diverged", "--yes")
  assert not (runs / "sweep" / "wild").exists()
  old = runs / "a" / "metrics.csv"
  os.utime(old, (1e9, 1e9))
  said(capsys, "clean", runs, "--older_than=30", "--yes")
  assert sorted(path.name for path in runs.iterdir()) == ["b", "half", "sweep", "thesis"]


def test_a_running_run_is_never_deleted(runs, capsys):
  with open(runs / "half" / ".lock", "w") as lock:
    fcntl.flock(lock, fcntl.LOCK_EX)
    assert overview.read(runs / "half").state == "running"
    assert "nothing to delete" in said(capsys, "clean", runs, "--unfinished", "--yes")
  assert (runs / "half").exists()
  assert "1 runs were deleted" in said(capsys, "clean", runs, "--unfinished", "--yes")


@pytest.mark.parametrize(
  ("arguments", "words"),
  [
    (["nosuch"], "found none"),
    (["clean", "nosuch"], "clean needs --unfinished, --diverged or --older_than=DAYS"),
    (["compare"], "the following arguments are required: FOLDER"),
  ],
)
def test_a_mistake_is_one_sentence(arguments, words, capsys):
  with pytest.raises(SystemExit) as ended:
    list_runs.main(arguments)
  assert ended.value.code == 2
  error = capsys.readouterr().err
  assert words in error
  assert error.count("\n") == 1
