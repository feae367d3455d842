"""Every task on synthetic data: the real schema, any number of clients, the same for the same seed."""

import inspect

import numpy as np
import pytest
import tensorflow as tf

import tasks

# Options that keep a test small; the schema is that of the full size.
SMALL = {
  "concrete": {"num_clients": 5},
  "gldv2": {"image_size": 32, "max_examples_per_client": 3},
  "inaturalist": {"image_size": 32},
  "cifar100": {"model": "cnn_fedgbo"},
  "tfds:mnist": {},
  "stackoverflow": {"vocabulary_size": 200, "max_examples_per_client": 8},
}
WITH_DATA = [
  name for name in tasks.TASKS if "data" in inspect.signature(tasks.loader(name)).parameters
] + ["tfds:mnist"]


def load(name, seed=0, **options):
  return tasks.loader(name)(seed=seed, data="synthetic", **{**SMALL.get(name, {}), **options})


def first_batch(task, client):
  batch = next(iter(task.dataset(client, np.array([1, 2], np.int32), 4)))
  return [part.numpy() for part in tf.nest.flatten(batch)]


@pytest.mark.parametrize("name", WITH_DATA)
def test_schema_and_determinism(name):
  task = load(name)
  assert task.data == "synthetic"
  client = task.clients[len(task.clients) - 1]
  dataset = task.dataset(client, np.zeros(2, np.int32), 4)
  assert dataset.element_spec == task.model.batch_spec
  assert dataset.cardinality().numpy() >= 1
  assert task.evaluation(4).element_spec == task.model.batch_spec
  assert next(iter(task.evaluation(4)))
  for one, other in zip(first_batch(task, client), first_batch(load(name), client), strict=True):
    np.testing.assert_array_equal(one, other)
  differ = zip(first_batch(task, client), first_batch(load(name, seed=1), client), strict=True)
  assert any(a.shape != b.shape or (a != b).any() for a, b in differ)


@pytest.mark.parametrize("name", ["emnist_digits", "cifar10_dirichlet", "sent140", "shakespeare"])
def test_clients_differ_and_a_million_of_them_cost_nothing(name):
  task = load(name, num_clients=1_000_000, max_examples_per_client=20)
  assert len(task.clients) == 1_000_000
  assert task.total_examples >= 1_000_000
  a, b = (first_batch(task, task.clients[k]) for k in (3, 987_654))
  assert any(x.shape != y.shape or (x != y).any() for x, y in zip(a, b, strict=True))


def test_alpha_shapes_the_labels():
  for alpha, low, high in ((0.0, 1, 1), (1e4, 9, 10)):
    task = load("cifar10_dirichlet", alpha=alpha, max_examples_per_client=200)
    kinds = [
      len(np.unique(np.concatenate([y for _, y in task.dataset(c, np.zeros(2), 50)])))
      for c in task.clients[:5]
    ]
    assert low <= min(kinds)
    assert max(kinds) <= high


def test_wrong_values_are_refused_in_one_sentence():
  for name, options, sentence in (
    ("emnist", {"model": "resnet"}, "model must be one of cnn, cnn_dropout"),
    ("cifar100", {"crop": 40}, "crop must be a finite number at most 32"),
    ("cifar10_two_class", {"partition": "halves"}, "partition must be iid"),
    ("emnist_sorted", {"similarity": -1.0}, "similarity must be"),
    ("gldv2", {"model": "vit_b16", "image_size": 40}, "multiple of 16"),
    ("stackoverflow", {"num_clients": -3}, "num_clients must be"),
  ):
    with pytest.raises(ValueError, match=sentence):
      load(name, **options)
  with pytest.raises(ValueError, match="data must be one of real, synthetic; found 'fake'"):
    tasks.loader("emnist")(seed=0, data="fake")
