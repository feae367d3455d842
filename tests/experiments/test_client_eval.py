"""Evaluation on clients' own data in a run: the split, the columns against NumPy, the report's table."""

import csv
import json

import numpy as np
import pytest
import tensorflow as tf

from experiments.reports import client_table
from experiments.training import client_split, remote_data
from tasks import digits
from tests.helpers import forked_runs
from tests.helpers.report_runs import compared, write_run
from tff_momentum.runtime import ClientBatches

SEED = np.zeros(2, np.int32)


def images(data):
  return [x.tobytes() for batch in data for x in batch[0].numpy()]


def test_a_fifth_of_each_clients_examples_is_held_out_and_never_trains():
  task = digits.load(seed=1, num_clients=60)
  split = client_split.hold_out(task)
  trained = 0
  for client in task.clients:
    whole = task.dataset(client, SEED, 7)
    train, held = split.task.dataset(client, SEED, 7), split.held_out(client)
    expected = max(1, whole.num_examples // 5) if whole.num_examples > 1 else 0
    assert held.num_examples == expected
    assert sorted(images(train) + images(held)) == sorted(images(whole))
    trained += train.num_examples
  assert split.task.total_examples == trained
  assert (
    client_split.rows("a", 50).held_out.tolist() != client_split.rows("b", 50).held_out.tolist()
  )
  assert (
    client_split.rows("a", 50).held_out.tolist() == client_split.rows("a", 50).held_out.tolist()
  )
  assert client_split.rows("a", 1).held_out.size == 0


def test_selected_batches_keep_their_rule_and_their_seed():
  arrays = (np.arange(20, dtype=np.float32), np.arange(20))
  whole = ClientBatches(arrays, batch_size=4, seed=(3, 9), begin=5, drop_remainder=True)
  some = whole.select([1, 2, 3, 5, 7, 11])
  same = ClientBatches(
    (arrays[0][[6, 7, 8, 10, 12, 16]], arrays[1][[6, 7, 8, 10, 12, 16]]),
    batch_size=4,
    seed=(3, 9),
    drop_remainder=True,
  )
  assert some.rule is whole.rule
  assert some.cardinality() == 1
  assert [y.numpy().tolist() for _, y in some] == [y.numpy().tolist() for _, y in same]


def test_augmented_tasks_are_evaluated_without_augmentation():
  """The held-out rows are those of `client_evaluation`."""
  import tasks

  options = tasks.info("cifar10_dirichlet").synthetic_options
  task = tasks.load("cifar10_dirichlet", seed=1, **options)
  assert task.client_evaluation is not None
  client = task.clients[0]
  held = client_split.hold_out(task).held_out(client)
  everything = np.concatenate([x.numpy() for x, _ in task.client_evaluation(client, 50)])
  rows = client_split.rows(client, len(everything)).held_out
  found = np.concatenate([x.numpy() for x, _ in held])
  np.testing.assert_array_equal(found, everything[rows])


def test_other_processes_make_the_same_split():
  task = digits.load(seed=1)
  here = client_split.hold_out(task).task
  there = remote_data.load("digits", 1, "{}", ".", splits_clients=True)
  for client in ("0", "17"):
    assert images(here.dataset(client, SEED, 5)) == images(there.dataset(client, SEED, 5))


def test_a_task_of_data_sets_is_refused_with_one_sentence():
  import dataclasses

  task = digits.load(seed=1)
  as_dataset = dataclasses.replace(
    task, dataset=lambda client, seed, size: task.dataset(client, seed, size).as_dataset()
  )
  with pytest.raises(ValueError, match=r"--client_eval_period holds out examples .* ClientBatches"):
    client_split.hold_out(as_dataset)


def softmax(weights, x):
  logits = x @ weights[0] + weights[1]
  p = np.exp(logits - logits.max(1, keepdims=True))
  return p / p.sum(1, keepdims=True)


def recomputed(folder, task, clients, steps, rate):
  """The accuracy and loss of the exported model on each client, before and after SGD, in float64."""
  with np.load(folder / "model_last" / "weights.npz") as file:
    model = [file[key].astype(np.float64) for key in sorted(file.files)]
  split = client_split.hold_out(task)
  found = []
  for client, seed in clients:
    x, y = (np.concatenate(parts) for parts in zip(*split.held_out(client), strict=True))
    weights, row = model, []
    batches = split.task.dataset(client, seed, 10).as_dataset().repeat().take(steps)
    for batch in [None, *batches]:
      if batch is not None:
        images_, labels = (part.numpy() for part in batch)
        error = (softmax(weights, images_) - np.eye(10)[labels]) / len(labels)
        weights = [weights[0] - rate * images_.T @ error, weights[1] - rate * error.sum(0)]
      else:
        row += _values(weights, x, y)
    found.append([*row, *_values(weights, x, y)])
  return np.array(found)


def _values(weights, x, y):
  p = softmax(weights, x)
  return [-np.log(p[np.arange(len(y)), y]).mean(), (p.argmax(1) == y).mean()]


def test_the_columns_of_a_run_agree_with_numpy(tmp_path):
  from tff_momentum.simulation import seeds

  ended = forked_runs.run(
    "--task=digits", "--model=logistic", "--num_clients=30", "--algo=scaffold", "--total_rounds=5",
    "--client_eval_period=2", "--client_eval_clients=25", "--client_eval_steps=3", "--quiet",
    f"--root_output_dir={tmp_path}",
  )  # fmt: skip
  assert ended.returncode == 0, ended.output
  folder = tmp_path / "digits_scaffold_1"
  with open(folder / "metrics.csv", newline="") as file:
    rows = list(csv.DictReader(file))
  measured = [int(r["round"]) for r in rows if r["client_eval/accuracy_mean"]]
  assert measured == [2, 4, 5]  # at the period, and the last round
  task = digits.load(seed=1, num_clients=30, model="logistic")
  chosen = np.sort(seeds.generator(1, seeds.CLIENT_EVAL).choice(30, 25, replace=False))
  ids = [task.clients[int(i)] for i in chosen]
  own = seeds.client_seeds(1, seeds.CLIENT_EVAL, 4, ids)
  values = recomputed(folder, task, list(zip(ids, own, strict=True)), 3, 0.3)
  names = ("loss", "accuracy", "personalised_loss", "personalised_accuracy")
  for name, column in zip(names, values.T, strict=True):
    worst = np.sort(column)[::-1][:3] if name.endswith("loss") else np.sort(column)[:3]
    expected = {"mean": column.mean(), "worst_decile": worst.mean(), "std": column.std()}
    for statistic, value in expected.items():
      found = float(rows[-1][f"client_eval/{name}_{statistic}"])
      assert found == pytest.approx(value, rel=1e-3, abs=1e-5), (name, statistic)
  config = json.loads((folder / "config.json").read_text())
  assert [config[f"client_eval_{n}"] for n in ("period", "clients", "steps")] == [2, 25, 3]
  events = [str(p) for p in (folder / "tensorboard").glob("events*")]
  tags = {v.tag for e in tf.compat.v1.train.summary_iterator(events[0]) for v in e.summary.value}
  assert "client_eval/personalised_accuracy_worst_decile" in tags


def test_the_report_has_a_table_over_clients(tmp_path):
  columns = {
    "client_eval/accuracy_mean": [None, 0.7, None, 0.8],
    "client_eval/accuracy_worst_decile": [None, 0.1, None, 0.25],
    "client_eval/accuracy_std": [None, 0.2, None, 0.1],
  }
  write_run(tmp_path, "fedavg", [0.5] * 4, columns=columns, client_eval_period=2)
  write_run(tmp_path, "ghbm", [0.5] * 4, client_eval_period=2)
  (setting,), _ = compared(tmp_path)
  table = client_table.client_table(setting)
  assert table.header == ["Method", "Mean", "Worst tenth", "Std over clients"]
  assert [[cell.text for cell in row] for row in table.rows] == [["FedAvg", "80.0", "25.0", "10.0"]]
  write_run(tmp_path, "fedavg", [0.5] * 4)
  settings, _ = compared(tmp_path)
  assert len(settings) == 2  # with and without held-out examples: other training data
