"""The tasks that carry their data."""

import time

import numpy as np
import pytest
import tensorflow as tf

import tasks
from tasks import quadratic
from tasks.data.batches import NumberedIds
from tff_momentum.runtime import reads_by_index


def load(name, **options):
  return tasks.loader(name)(seed=0, **options)


def rows(dataset):
  return [tuple(part.numpy() for part in tf.nest.flatten(batch)) for batch in dataset]


@pytest.mark.parametrize("name", ["digits", "quadratic", "diabetes"])
def test_batches_fit_the_model_and_depend_on_the_seed_alone(name):
  task = load(name)
  client, seed = task.clients[3], np.array([5, -7], np.int32)
  batches = task.dataset(client, seed, 4)
  assert batches.element_spec == batches.as_dataset().element_spec == task.model.batch_spec
  assert task.evaluation(4).element_spec == task.model.batch_spec
  assert reads_by_index(batches)
  two_epochs = rows(batches.as_dataset().repeat(2))
  assert len(two_epochs) == 2 * batches.cardinality()
  tf.random.set_seed(99)  # nobody's business
  again = task.dataset(client, seed, 4).as_dataset().repeat(2)
  for one, other in zip(two_epochs, rows(again), strict=True):
    for a, b in zip(one, other, strict=True):
      np.testing.assert_array_equal(a, b)


def test_a_clients_batches_are_opened_in_a_fraction_of_a_millisecond():
  task = load("digits")
  task.dataset("0", np.zeros(2, np.int32), 10)
  times = []
  for number in range(50):
    start = time.perf_counter()
    task.dataset(str(number), np.array([number, 0], np.int32), 10)
    times.append(time.perf_counter() - start)
  assert np.median(times) < 2e-4  # 5 us when measured; CI machines are shared


def test_digits_splits_all_training_images():
  task = load("digits", num_clients=7, alpha=0.3)
  sizes = [sum(len(y) for _, y in rows(task.dataset(c, np.zeros(2), 50))) for c in task.clients]
  assert sum(sizes) == task.total_examples == 1438
  labels = np.concatenate([y for _, y in rows(task.evaluation(100))])
  assert np.bincount(labels).min() >= 34
  assert load("digits", model="logistic").model.num_parameters == 650
  assert task.model.num_parameters == 4810


def test_diabetes_reaches_the_r2_of_least_squares():
  """r2 of the evaluation equals 1 − Σ(y−p)²/Σ(y−ȳ)² for the closed-form weights."""
  task = load("diabetes", num_clients=1, similarity=100.0)
  (x, y), (u, v) = (rows(d)[0] for d in (task.dataset("0", np.zeros(2), 999), task.evaluation(999)))
  w = np.linalg.lstsq(np.c_[x, np.ones(len(x))], y, rcond=None)[0].astype(np.float32)
  tally = tf.function(task.model.evaluate)((tf.constant(w[:-1]), tf.constant(w[-1])), (u, v))
  prediction = np.c_[u, np.ones(len(u))] @ w
  expected = 1 - ((v - prediction) ** 2).sum() / ((v - v.mean()) ** 2).sum()
  np.testing.assert_allclose(task.model.finalize(tally)["r2"], expected, atol=1e-5)
  assert 0.4 < expected < 0.6


OPTIONS = dict(
  num_clients=9, dimension=6, mu=0.2, smoothness=2.0, gradient_dissimilarity=0.7,
  hessian_dissimilarity=0.15, noise=0.5, examples_per_client=8,
)  # fmt: skip


class TestQuadratic:
  def test_dissimilarities_and_optimum_are_exact(self):
    problem = quadratic.Problem(seed=4, **OPTIONS)
    clients = [problem.client(i) for i in range(9)]
    np.testing.assert_allclose(np.mean([a for a, _ in clients], 0), problem.curvature)
    np.testing.assert_allclose(np.mean([b for _, b in clients], 0), np.zeros(6), atol=1e-15)
    for diagonal, linear in clients[:-1]:
      np.testing.assert_allclose(np.abs(diagonal - problem.curvature).max(), 0.15)
      np.testing.assert_allclose(np.linalg.norm(linear), 0.7)
    assert (problem.curvature.min(), problem.curvature.max()) == pytest.approx((0.2, 2.0))

  def test_noise_sums_to_zero_over_a_client(self):
    problem = quadratic.Problem(seed=4, **OPTIONS)
    diagonal, linear = problem.client(3)
    rows_a, rows_b = problem.examples(3)
    np.testing.assert_allclose(rows_a, np.tile(diagonal, (8, 1)), rtol=1e-6)
    np.testing.assert_allclose(rows_b.mean(0), linear, atol=1e-6)
    assert rows_b.std() > 0.3

  def test_the_model_is_the_mean_function_and_its_gradient(self):
    task = load("quadratic", **OPTIONS)
    problem = quadratic.Problem(seed=0, **OPTIONS)
    x = np.linspace(-1, 1, 6).astype(np.float32)
    (batch,) = rows(task.evaluation(10))
    metrics = task.model.finalize(task.model.evaluate((tf.constant(x),), batch))
    np.testing.assert_allclose(metrics["loss"], problem.value(x), rtol=1e-5)
    np.testing.assert_allclose(metrics["distance"], np.linalg.norm(x - problem.optimum), rtol=1e-5)
    _, (gradient,) = task.model.value_and_grad((tf.constant(x),), batch, tf.zeros([2], tf.int32))
    np.testing.assert_allclose(gradient, problem.curvature * (x - problem.optimum), rtol=1e-5)

  def test_a_million_clients_cost_nothing(self):
    start = time.perf_counter()
    task = load("quadratic", num_clients=10**6)
    assert len(task.clients) == 10**6
    assert len(rows(task.dataset(task.clients[987_654], np.zeros(2), 4))) == 3
    assert time.perf_counter() - start < 5


def test_numbered_clients_are_a_sequence():
  clients = NumberedIds(1000)
  assert (clients[0], clients[-1], len(clients)) == ("0", "999", 1000)
  assert clients[2:4] == ["2", "3"]
  assert "999" in clients
  assert "1000" not in clients
  assert "x" not in clients
  with pytest.raises(IndexError):
    clients[1000]


@pytest.mark.parametrize(
  ("name", "options", "sentence"),
  [
    ("digits", {"model": "cnn"}, "model must be one of mlp, logistic; found 'cnn'"),
    ("digits", {"num_clients": 5000}, "at most the 1438 training examples"),
    ("digits", {"alpha": float("nan")}, "alpha must be a finite number"),
    ("quadratic", {"mu": 0.0}, "mu must be a finite number above 0"),
    ("quadratic", {"smoothness": 0.01}, "smoothness must be a finite number at least 0.1"),
    ("diabetes", {"similarity": 120.0}, "similarity must be"),
  ],
)
def test_wrong_options_are_refused_in_one_sentence(name, options, sentence):
  with pytest.raises(ValueError, match=sentence):
    load(name, **options)
