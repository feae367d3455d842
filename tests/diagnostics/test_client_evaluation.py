"""Evaluation on clients' own data against a recomputation in float64 NumPy."""

import numpy as np
import pytest

from tests.helpers import harness
from tff_momentum.diagnostics.client_evaluation import (
  ClientEvaluator,
  EvaluatedClient,
  statistics,
)
from tff_momentum.runtime import ClientBatches, set_execution_context

RATE, STEPS = 0.4, 5
COHORT = (0, 1, 2, 3)  # 7, 4, 1 and 12 examples; client 2 holds none out
HELD_OUT = {0: [1, 4], 1: [2], 2: [], 3: [0, 5, 7, 11]}


def parts(i):
  x, y = harness.client_examples(i)
  held = np.isin(np.arange(len(y)), HELD_OUT[i])
  return (x[~held], y[~held]), (x[held], y[held])


def clients():
  return [
    EvaluatedClient(
      harness.client_seed(0, i),
      ClientBatches(train, batch_size=harness.BATCH),
      ClientBatches(held, batch_size=2),
    )
    for i in COHORT
    for train, held in [parts(i)]
  ]


def values(flat, examples):
  """The loss and accuracy of softmax regression."""
  x, y = examples
  split = harness.FEATURES * harness.CLASSES
  logits = x @ flat[:split].reshape(harness.FEATURES, harness.CLASSES) + flat[split:]
  log_p = logits - np.log(np.exp(logits).sum(1, keepdims=True))
  return -log_p[np.arange(len(y)), y].mean(), (logits.argmax(1) == y).mean()


def trained(flat, examples):
  """After STEPS steps of SGD over the batches, again and again in the same order."""
  gradient = harness.oracle_problem().gradient
  x, y = examples
  batches = [(x[k : k + harness.BATCH], y[k : k + harness.BATCH]) for k in range(0, len(y), 3)]
  for k in range(STEPS):
    flat = flat - RATE * gradient(flat, batches[k % len(batches)])
  return flat


@pytest.mark.parametrize("own_models", [False, True])
def test_metrics_agree_with_numpy(own_models):
  evaluate = ClientEvaluator(
    harness.softmax_model(), steps=STEPS, learning_rate=RATE, own_models=own_models
  )
  start = harness.initial_weights()
  models = [tuple(w + np.float32(0.1) * i for w in start) for i in range(len(COHORT))]
  found = evaluate(models if own_models else start, clients())
  expected = []
  for position, i in enumerate(COHORT):
    if HELD_OUT[i]:
      train, held = parts(i)
      flat = harness.flatten(models[position] if own_models else start)
      expected.append([*values(flat, held), *values(trained(flat, train), held)])
  loss, accuracy, later_loss, later_accuracy = np.transpose(expected)
  np.testing.assert_allclose(found.before["loss"], loss, rtol=1e-5)
  np.testing.assert_allclose(found.before["accuracy"], accuracy, rtol=1e-6)
  np.testing.assert_allclose(found.after["loss"], later_loss, rtol=1e-4)
  np.testing.assert_allclose(found.after["accuracy"], later_accuracy, rtol=1e-6)


def test_without_steps_there_is_no_personalised_model():
  evaluate = ClientEvaluator(harness.softmax_model(), steps=0, learning_rate=RATE)
  found = evaluate(harness.initial_weights(), clients())
  assert found.after == {}
  assert len(found.before["loss"]) == 3


def test_tffs_worker_gives_the_same():
  model = harness.softmax_model()
  ours = ClientEvaluator(model, steps=2, learning_rate=RATE)(harness.initial_weights(), clients())
  try:
    set_execution_context("tff")
    evaluate = ClientEvaluator(model, steps=2, learning_rate=RATE)
    theirs = evaluate(harness.initial_weights(), clients())
  finally:
    set_execution_context("inprocess")
  np.testing.assert_allclose(ours.before["loss"], theirs.before["loss"], rtol=1e-5)
  np.testing.assert_allclose(ours.after["loss"], theirs.after["loss"], rtol=1e-5)


def test_statistics():
  many = np.arange(25.0)[::-1]
  assert statistics(many, larger_is_better=True) == {
    "mean": 12.0, "worst_decile": 1.0, "std": pytest.approx(np.sqrt(52))}  # fmt: skip
  assert statistics(many, larger_is_better=False)["worst_decile"] == 23.0
  assert all(np.isnan(v) for v in statistics(np.array([]), larger_is_better=True).values())
