"""experiments/data.py: lists, downloads, verifies and describes data sets."""

import pathlib

import numpy as np
import pytest

from experiments import data
from experiments.training import label_plot
from tests.tasks.test_broken_files import write_stackoverflow


@pytest.fixture
def cache(tmp_path):
  write_stackoverflow(tmp_path)
  return tmp_path


def test_list_says_what_is_here(cache, capsys):
  assert data.main(["list", f"--data_dir={cache}"]) == 0
  lines = {line.split()[0]: line for line in capsys.readouterr().out.splitlines()}
  assert "embedded" in lines["digits"]
  assert "present" in lines["stackoverflow_tag"]
  assert "missing" in lines["cifar100"]
  assert set(data.STORED) <= set(lines)


def test_verify_reads_everything(cache, capsys):
  assert data.main(["verify", "stackoverflow", f"--data_dir={cache}"]) == 0
  assert "2 clients, 50 examples, verified" in capsys.readouterr().out
  assert data.main(["verify", "digits"]) == 0
  assert "embedded data" in capsys.readouterr().out


def test_fetch_of_what_is_there_does_nothing(cache, capsys):
  before = sorted(path.name for path in (cache / "tff").iterdir() if path.is_file())
  assert data.main(["fetch", "stackoverflow", f"--data_dir={cache}"]) == 0
  assert f"the data is in {cache}" in capsys.readouterr().out
  assert sorted(path.name for path in (cache / "tff").iterdir() if path.is_file()) == before


@pytest.mark.parametrize(
  ("arguments", "told"),
  [
    (["verify", "shakespeare"], "is not at"),
    (["verify", "stackoverflow"], "is not a SQLite file"),
    (["describe", "digit"], "there is no task 'digit' (did you mean digits"),
  ],
)
def test_what_is_wrong_is_told_in_a_sentence(cache, capsys, arguments, told):
  (cache / "tff" / "stackoverflow.sqlite").write_bytes(b"<html>log in</html>" * 9)
  assert data.main([*arguments, f"--data_dir={cache}"]) == 2
  error = capsys.readouterr().err
  assert told in error
  assert error.count("\n") == 1


def test_describe_counts_and_draws_labels(tmp_path, capsys):
  assert data.main(["describe", "digits", f"--plot={tmp_path / 'labels.png'}"]) == 0
  text = capsys.readouterr().out
  assert "clients           100" in text
  assert "examples          1,438" in text
  assert "10 classes" in text
  assert (tmp_path / "labels.png").read_bytes().startswith(b"\x89PNG")


def test_labels_are_counted_by_client():
  import tasks

  task = tasks.loader("digits")(seed=1, num_clients=20, alpha=0)
  found = label_plot.count(task)
  assert found.table.shape == (20, 10)
  np.testing.assert_array_equal(found.table.sum(1), found.sizes)
  assert ((found.table > 0).sum(1) == 1).all()  # one class each
  assert found.skew > 0.8
  assert len(label_plot.count(task, seconds=0).sizes) == 1


def test_a_task_without_labels_has_none_counted():
  import tasks

  found = label_plot.count(tasks.loader("quadratic")(seed=1, num_clients=4))
  assert found.table.shape == (4, 0)


def test_every_task_with_data_of_its_own_elsewhere_is_stored_somewhere():
  import tasks

  assert set(tasks.TASKS) - set(data.STORED) == {"digits", "quadratic", "diabetes"}
  assert all(not pathlib.PurePath(s.path).is_absolute() for s in data.STORED.values())
