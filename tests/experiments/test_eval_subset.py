"""Evaluation on a part of the test data, and what is exported of a run, without a run."""

import json
import types

import numpy as np
import pytest
import tensorflow as tf

from experiments.cli.run_config import eval_examples
from experiments.training import eval_subset, export
from tasks import digits
from tasks.data.batches import ordered_batches
from tff_momentum.models.keras import from_keras


def evaluation(count, largest=10**6):
  return lambda size: ordered_batches(np.arange(count), min(size, largest))


def rows(data):
  return np.concatenate([batch.numpy() for batch in data])


def test_a_part_comes_from_all_over_the_data_and_is_always_the_same():
  part = eval_subset.part_of(evaluation(10_000), 1000)
  found = rows(part(256))
  assert len(found) == 1000
  assert found.max() > 9_000
  np.testing.assert_array_equal(found, rows(part(256)))


@pytest.mark.parametrize("count", [1, 49, 120, 999])
@pytest.mark.parametrize("largest", [7, 10**6])
def test_a_part_holds_as_many_as_asked_for_up_to_a_batch(count, largest):
  found = rows(eval_subset.part_of(evaluation(1000, largest), count)(256))
  assert count <= len(found) < count + 50
  assert len({*found}) == len(found)


def test_data_of_unknown_length_is_cut_off():
  endless = lambda size: tf.data.Dataset.range(10**9).filter(lambda i: i >= 0).batch(size)  # noqa: E731
  assert len(rows(eval_subset.part_of(endless, 100)(256))) == 100


def test_how_many_are_asked_for():
  task = types.SimpleNamespace(evaluation=evaluation(40_000))
  assert eval_examples(task, None, None) is None
  assert eval_examples(task, 300, None) == 300
  assert eval_examples(task, 40_000, None) is None
  assert eval_examples(task, None, 0.5) == 20_000
  assert eval_examples(task, None, 0.01) == 1000
  assert eval_examples(task, 300, 0.01) == 300
  small = types.SimpleNamespace(evaluation=evaluation(360))
  assert eval_examples(small, None, 0.01) is None


def test_a_task_stays_what_it_is_but_for_its_test():
  task = digits.load(seed=1)
  part = eval_subset.on_part(task, 100)
  assert (part.clients, part.model) == (task.clients, task.model)
  assert sum(len(y) for _, y in part.evaluation(256)) == 100
  assert eval_subset.on_part(task, None) is task


# Exports: layers of Keras's own, and others, loaded where nobody knows of them.


class _Twice(tf.keras.layers.Layer):
  def call(self, x):
    return 2 * x


def model(*layers):
  return from_keras(
    lambda: tf.keras.Sequential([tf.keras.Input((3,)), *layers, tf.keras.layers.Dense(2)]),
    loss=lambda y, p: tf.reduce_mean((y - p) ** 2),
    batch_spec=(tf.TensorSpec([None, 3]), tf.TensorSpec([None, 2])),
  )


def test_both_models_load_without_the_classes_of_their_layers(tmp_path):
  last, best = [np.ones((3, 2), "f"), np.zeros(2, "f")], [np.eye(3, 2, dtype="f"), np.ones(2, "f")]
  ended, chosen = export.ExportedModel(last, {"round": 9}), export.ExportedModel(best, {"round": 5})
  export.export_both(tmp_path, model(_Twice()), ended, chosen)
  export.export_both(tmp_path / "stock", model(), ended, chosen._replace(weights=last))
  expected = {
    "model_last": 6.0,
    "model_best": 3.0,
    "stock/model_last": 3.0,
    "stock/model_best": 3.0,
  }
  for name, value in expected.items():
    folder, x = str(tmp_path / name / "saved_model"), tf.ones([1, 3])
    loaded = tf.keras.models.load_model(folder)
    assert "tests." not in str(type(loaded.layers[0]))  # Keras has made it from the file alone
    (served,) = tf.saved_model.load(folder).signatures["serving_default"](x).values()
    np.testing.assert_array_equal(loaded(x), [[value, value]])
    np.testing.assert_array_equal(served, [[value, value]])
    told = json.loads((tmp_path / name / "about.json").read_text())
    assert told == {"round": 9 if name.endswith("last") else 5}
  assert not list(tmp_path.rglob("*.part"))
