"""Updates with infinities or NaN in them: counted, and left out, zeroed or fatal."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import harness
from tff_momentum import algorithms
from tff_momentum.client import LocalWork
from tff_momentum.processes.process import build_process

COHORT = (0, 1, 2)
BROKEN = 1
ALGORITHMS = {
  "fedavg": {},
  "mime": {},  # two exchanges: the first finds it out, the second must not count the client either
  "scaffold": {"num_clients": 6},
}


def dataset(i):
  x, y = harness.client_examples(i)
  x = np.where(i == BROKEN, np.nan, x).astype(np.float32)
  return tf.data.Dataset.from_tensor_slices((x, y)).batch(harness.BATCH)


def run(name, cohort, non_finite="reject"):
  algorithm = algorithms.builder(name)(client_learning_rate=0.1, **ALGORITHMS[name])
  process = build_process(
    algorithm, harness.softmax_model(), work=LocalWork(), non_finite=non_finite
  )
  return harness.run_process(process, [cohort] * 2, dataset=dataset)


@pytest.mark.parametrize("name", ALGORITHMS)
def test_a_rejected_client_might_as_well_not_be_there(name):
  found = run(name, COHORT)
  expected = run(name, [i for i in COHORT if i != BROKEN])
  np.testing.assert_array_equal(found.x, expected.x)
  for metrics, without in zip(found.metrics, expected.metrics, strict=True):
    assert (int(metrics["non_finite"]), int(without["non_finite"])) == (1, 0)
    assert int(metrics["clients"]) == int(without["clients"]) == 2
    assert float(metrics["train"]["loss"]) == float(without["train"]["loss"])
  for i in COHORT:
    assert np.isfinite(harness.flatten((found.clients[i], [0.0]))).all()


def test_a_zeroed_client_counts_as_one_that_did_not_move():
  zeroed, rejected = run("fedavg", COHORT, "zero"), run("fedavg", COHORT)
  start = harness.flatten(zeroed.process.model.initial_weights)
  np.testing.assert_allclose(
    zeroed.x[0] - start, 2 / 3 * (rejected.x[0] - start), rtol=1e-5, atol=1e-7
  )
  assert int(zeroed.metrics[0]["non_finite"]) == 1


def test_a_fatal_one_is_an_error_that_says_so():
  expected = (
    r"(?s)client 1 of the cohort failed in operation .*finite_update.*Lower the learning rate"
  )
  with pytest.raises(tf.errors.InvalidArgumentError, match=expected):
    run("fedavg", COHORT, "fatal")


def test_a_round_of_broken_clients_alone_changes_nothing_but_the_count():
  found = run("scaffold", [BROKEN])
  start = harness.flatten(found.process.model.initial_weights)
  np.testing.assert_array_equal(found.x[-1], start)
  assert int(found.states[-1].round) == 2
  assert int(found.metrics[-1]["clients"]) == 0


def test_another_word_is_refused():
  with pytest.raises(ValueError, match="non_finite must be one of"):
    run("fedavg", COHORT, "ignore")
