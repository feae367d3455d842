"""--tune_on=validation: held-out clients, their data, and runs that are evaluated on them."""

import dataclasses
import json
import signal

import numpy as np
import pytest
import tensorflow as tf

import tasks
from experiments.training import remote_data, validation_split
from experiments.training.validation_split import RemainingClients, hold_out
from tasks import digits
from tests.experiments.test_resume import assert_same_run, rows, run, start_and_stop
from tests.helpers.report_runs import compared, write_run
from tff_momentum.simulation import loop
from tff_momentum.simulation.cohort_reader import CohortReader


def examples(data):
  """All examples of a data set of (x, y), one after the other."""
  batches = [tf.nest.map_structure(lambda part: part.numpy(), batch) for batch in data]
  return tuple(np.concatenate([batch[i] for batch in batches]) for i in range(2))


def as_set(arrays):
  return sorted(
    zip(arrays[0].reshape(len(arrays[0]), -1).tolist(), arrays[1].tolist(), strict=True)
  )


@pytest.mark.parametrize("without", [[], [0], [4], [0, 1], [3, 4], [1, 3], [2, 0, 4]])
def test_the_remaining_clients(without):
  ids = ["a", "b", "c", "d", "e"]
  expected = [client for i, client in enumerate(ids) if i not in without]
  found = RemainingClients(ids, without)
  assert len(found) == len(expected)
  assert list(found) == [found[i] for i in range(len(found))] == found[:] == expected
  assert found[-1] == expected[-1]
  assert found[1:] == expected[1:]
  with pytest.raises(IndexError):
    found[len(expected)]


def test_a_fifth_of_the_clients_is_held_out_with_all_its_data():
  task = digits.load(seed=1)
  training, validation = hold_out(task)
  assert len(validation.clients) == 20
  assert len(training.clients) == 80
  assert not set(validation.clients) & set(training.clients)
  assert {*validation.clients, *training.clients} == set(task.clients)
  zero = np.zeros(2, np.int32)
  own = [examples(task.dataset(client, zero, 64)) for client in validation.clients]
  expected = tuple(np.concatenate(parts) for parts in zip(*own, strict=True))
  assert as_set(examples(validation.data(64))) == as_set(expected)
  assert training.total_examples == task.total_examples - len(expected[0])
  # The order is fixed: sums of floats, and so the bits of metrics.csv, depend on it.
  data = validation.data(50)
  for _ in range(2):
    for x, y in zip(examples(data), examples(hold_out(task)[1].data(50)), strict=True):
      np.testing.assert_array_equal(x, y)
  assert hold_out(digits.load(seed=2))[1].clients == validation.clients


def test_large_tasks_hold_out_no_more_than_evaluation_needs(monkeypatch):
  monkeypatch.setattr(validation_split, "MOST_EXAMPLES", 100)
  task = digits.load(seed=1)
  training, validation = hold_out(task)
  held = len(examples(validation.data(64))[0])
  assert 100 <= held < 200
  assert len(validation.clients) < 20
  assert training.total_examples == task.total_examples - held


def test_what_cannot_be_held_out_is_told():
  with pytest.raises(ValueError, match="needs at least 2; found 1"):
    hold_out(digits.load(seed=1, num_clients=1))
  task = digits.load(seed=1)
  nothing = dataclasses.replace(task, dataset=lambda *a: task.dataset(*a).as_dataset().take(0))
  with pytest.raises(ValueError, match="held-out clients with data; found none among 20"):
    hold_out(nothing)


@pytest.mark.parametrize(
  ("name", "options"),
  [
    ("cifar100", {"data": "synthetic"}),
    ("cifar10_dirichlet", {"data": "synthetic"}),
    ("emnist", {"data": "synthetic"}),
    ("shakespeare", {"data": "synthetic"}),
    ("stackoverflow", {"data": "synthetic"}),
    ("stackoverflow_tag", {"data": "synthetic"}),
    ("quadratic", {}),
    ("diabetes", {}),
  ],
)
def test_every_kind_of_task_has_held_out_clients(monkeypatch, name, options):
  """Their examples have the model's types, and are prepared like test data: without random augmentation."""
  monkeypatch.setattr(validation_split, "MOST_EXAMPLES", 60)
  task = tasks.load(name, seed=1, **options)
  once, again = hold_out(task)[1], hold_out(task)[1]
  batch = next(iter(once.data(8)))
  tf.nest.assert_same_structure(batch, task.model.batch_spec)
  for array, spec in zip(
    tf.nest.flatten(batch), tf.nest.flatten(task.model.batch_spec), strict=True
  ):
    assert spec.is_compatible_with(array)
  for x, y in zip(tf.nest.flatten(batch), tf.nest.flatten(next(iter(again.data(8)))), strict=True):
    np.testing.assert_array_equal(x, y)
  if task.client_evaluation is not None:
    client = min(once.clients, key=list(task.clients).index)
    assert sum(len(tf.nest.flatten(b)[0]) for b in task.client_evaluation(client, 64)) > 0


def test_references_of_a_ray_run_are_those_of_the_training_clients():
  training, validation = hold_out(digits.load(seed=1))
  remote = remote_data.by_reference(training, "digits", 1, {})
  assert list(remote.clients) == list(training.clients)
  client = training.clients[7]
  seed = np.array([3, 4], np.int32)
  resolved = examples(remote.dataset(client, seed, 5).resolve())
  for x, y in zip(resolved, examples(training.dataset(client, seed, 5)), strict=True):
    np.testing.assert_array_equal(x, y)
  assert client not in validation.clients


FLAGS = ["--algo=scaffold", "--tune_on=validation", "--total_rounds=12", "--num_clients=100"]


def test_a_run_with_held_out_clients_resumes_to_the_same_bits(tmp_path):
  run(tmp_path, "whole", *FLAGS)
  ended = start_and_stop(tmp_path, "killed", *FLAGS, rows=7, with_signal=signal.SIGKILL)
  assert ended.returncode == -signal.SIGKILL, ended.output
  run(tmp_path, "killed", *FLAGS)
  assert_same_run(tmp_path / "whole", tmp_path / "killed")

  found = rows(tmp_path / "whole")
  assert all(row["validation/accuracy"] and row["eval/accuracy"] for row in found)
  config = json.loads((tmp_path / "whole" / "config.json").read_text())
  assert config["tune_on"] == "validation"
  assert config["num_clients"] == 80  # SCAFFOLD's N
  assert config["validation_clients"] == hold_out(digits.load(seed=1))[1].clients
  about = json.loads((tmp_path / "whole" / "model_best" / "about.json").read_text())
  scores = [float(row["validation/accuracy"]) for row in found]
  assert (about["metric"], about["score"]) == ("validation/accuracy", max(scores))
  assert about["round"] == 1 + scores.index(max(scores))
  summary = json.loads((tmp_path / "whole" / "summary.json").read_text())
  assert summary["last validation/accuracy"] == scores[-1]


def test_held_out_clients_never_train(monkeypatch, tmp_path):
  """No round opens the data of a held-out client."""
  import tff_momentum as tfm

  training, validation = hold_out(digits.load(seed=1))
  seen = set()
  read = CohortReader.read

  def spy(self, t):
    cohort = read(self, t)
    seen.update(cohort.ids)
    return cohort

  monkeypatch.setattr(CohortReader, "read", spy)
  tfm.set_execution_context("inprocess")
  process = tfm.build_process(tfm.algorithms.fedavg(client_learning_rate=0.1), training.model)
  ended = loop.run(
    process, training, total_rounds=3, clients_per_round=80, validation_data=validation.data
  )
  assert seen == set(training.clients)
  assert not seen & set(validation.clients)
  assert {"validation/loss", "validation/accuracy", "eval/loss"} <= set(ended.history[-1])


def test_a_cohort_of_all_clients_becomes_one_of_all_training_clients(tmp_path):
  arguments = ["--algo=fedavg", "--tune_on=validation", "--total_rounds=1", "--lean"]
  run(tmp_path, "all", *arguments, "--clients_per_round=30")  # of 30
  assert json.loads((tmp_path / "all" / "config.json").read_text())["clients_per_round"] == 24
  assert [row["clients"] for row in rows(tmp_path / "all")] == ["24"]


def test_a_report_chooses_by_held_out_clients_and_says_so(tmp_path):
  for rate, validated, tested in ((0.1, 0.5, 0.9), (0.3, 0.8, 0.7)):
    write_run(
      tmp_path / "runs",
      "fedavg",
      [tested] * 2,
      name=f"rate_{rate}",
      hyperparameters={"client_learning_rate": rate},
      columns={"validation/accuracy": [validated] * 2, "validation/loss": [0.1] * 2},
      tune_on="validation",
    )
  ((setting,), problems) = compared(tmp_path / "runs")
  assert not problems
  (method,) = setting.methods
  assert method.best.tuned["client_learning_rate"] == 0.3
  assert setting.metric.column == "eval/accuracy"

  from experiments.reports import result_tables

  table = result_tables.final_table([setting])
  assert "held-out training clients (--tune_on=validation)" in table.caption
