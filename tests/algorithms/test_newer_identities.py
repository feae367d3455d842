"""Identities of FedNova and FedExP on linear losses, and of FedExP over SCAFFOLD."""

import dataclasses

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import direct_runs, harness
from tff_momentum import algorithms
from tff_momentum.transforms.extrapolation import extrapolated

N = len(harness.SIZES)
LR = {"client_learning_rate": 0.1}


def linear_model():
  """Linear losses: the gradient of a batch is the mean of its features, wherever it is taken."""
  plain = harness.softmax_model()

  def value_and_grad(weights, batch, seed):
    slope = tf.reduce_mean(batch[0], axis=0)
    gradient = (slope[:, tf.newaxis] * tf.ones_like(weights[0]), tf.zeros_like(weights[1]))
    return plain.evaluate(weights, batch), gradient

  return dataclasses.replace(plain, value_and_grad=value_and_grad)


def run_linear(algorithm, monkeypatch, features, batches):
  """One round on linear losses: client i has the gradient features[i] in each of its batches[i] batches."""

  def dataset(i):
    example = (np.float32([features[i]]), np.int32([0]))
    return tf.data.Dataset.from_tensors(example).repeat(batches[i])

  monkeypatch.setattr(harness, "client_dataset", dataset)
  cohorts, work = (tuple(range(len(batches))),), (("epochs", 1),)
  ours = direct_runs.run_algorithm(algorithm, cohorts=cohorts, work=work, model=linear_model)
  moved = harness.flatten(harness.initial_weights()) - ours.x[0]
  return moved.reshape(-1, harness.CLASSES)[: harness.FEATURES, 0]


@pytest.mark.parametrize("beta_l", [0.0, 0.6])
def test_fednova_on_linear_losses_weighs_every_client_by_its_examples_alone(beta_l, monkeypatch):
  """x − x⁺ = η_l E[a] E[g], however many steps each client takes."""
  features, steps = np.random.default_rng(0).normal(size=(4, harness.FEATURES)), (3, 1, 5, 2)
  algorithm = algorithms.fednova(**LR, beta_l=beta_l)
  moved = run_linear(algorithm, monkeypatch, features, steps)
  a = [sum((1 - beta_l ** (k + 1)) / (1 - beta_l) for k in range(K)) for K in steps]
  n = harness.SIZES[:4]
  expected = 0.1 * np.average(a, weights=n) * np.average(features, axis=0, weights=n)
  np.testing.assert_allclose(moved, expected, rtol=1e-5)


@pytest.mark.parametrize("inner", ["fedavg", "scaffold"])
def test_fedexps_rate_is_half_the_number_of_orthogonal_clients(inner, monkeypatch):
  S, facts = 3, {"num_clients": N} if inner == "scaffold" else {}
  algorithm = extrapolated(algorithms.builder(inner)(**LR, **facts), epsilon=0.0)
  moved = run_linear(algorithm, monkeypatch, np.eye(S), (1,) * S)
  np.testing.assert_allclose(moved, np.full(S, S / 2 * 0.1 / S), rtol=1e-5)


@pytest.mark.parametrize(
  ("epsilon", "cohorts"), [(1e12, harness.COHORTS), (0.0, ((3,), (1,))), (0.0, ((3, 3),))]
)
def test_fedexp_over_scaffold_is_scaffold_where_it_is_fedavg_over_fedavg(epsilon, cohorts):
  scaffold = algorithms.scaffold(**LR, num_clients=N)
  ours = direct_runs.run_algorithm(extrapolated(scaffold, epsilon=epsilon), cohorts=cohorts)
  plain = direct_runs.run_algorithm(scaffold, cohorts=cohorts)
  harness.assert_same_models(ours.x, plain.x, 5e-6)
