"""Every task on synthetic data: the real schema, any number of clients, the same for the same seed."""

import numpy as np
import pytest

import tasks
from tasks.data import synthetic
from tests.tasks.test_docs import assert_documented_defaults
from tff_momentum.runtime import reads_by_index

# Options that keep a test small; the schema is that of the full size.
SMALL = {
  "concrete": {"num_clients": 5},
  "gldv2": {"image_size": 32, "max_examples_per_client": 3},
  "inaturalist": {"image_size": 32},
  "cifar100": {"model": "cnn_fedgbo"},
  "tfds:mnist": {},
  "stackoverflow": {"vocabulary_size": 200, "max_examples_per_client": 8},
}
WITH_DATA = [name for name, task in tasks.TASKS.items() if "data" in task.options] + ["tfds:mnist"]


def load(name, seed=0, **options):
  return tasks.loader(name)(seed=seed, data="synthetic", **{**SMALL.get(name, {}), **options})


SLOW = ("gldv2", "inaturalist")  # MobileNetV2 takes half a minute to trace


@pytest.mark.parametrize(
  "name",
  [pytest.param(name, marks=[pytest.mark.slow] * (name in SLOW)) for name in WITH_DATA],
)
def test_schema(name):
  task = load(name)
  assert task.data == "synthetic"
  client = task.clients[len(task.clients) - 1]
  batches = task.dataset(client, np.zeros(2, np.int32), 4)
  assert batches.element_spec == batches.as_dataset().element_spec == task.model.batch_spec
  assert batches.cardinality() >= 1
  assert reads_by_index(batches)
  assert task.evaluation(4).element_spec == task.model.batch_spec
  assert next(iter(task.evaluation(4)))
  assert_documented_defaults(name, task)


GENERATORS = {
  "images": synthetic.images((8, 8, 3), 10, synthetic.class_law(0.5, 10)),
  "posts": synthetic.posts([f"w{k}" for k in range(100)], ["a", "b"]),
  "speeches": synthetic.speeches(),
  "tweets": synthetic.tweets(),
}


@pytest.mark.parametrize("name", GENERATORS)
def test_clients_differ_repeat_and_cost_nothing_by_the_million(name):
  def source(seed):
    return synthetic.synthetic_source(
      GENERATORS[name], seed=seed, num_clients=1_000_000, examples=10, max_examples=12
    )

  one = source(0)
  assert len(one.clients) == 1_000_000
  assert 5_000_000 < one.total_examples <= 12_000_000
  raw = one.read("987654")
  assert same(raw, source(0).read("987654"))
  assert not same(raw, source(1).read("987654"))
  assert not same(raw, one.read("3"))
  assert len({len(column) for column in raw.values()}) == 1


def same(a, b):
  return all(len(a[key]) == len(b[key]) and (a[key] == b[key]).all() for key in a)


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
