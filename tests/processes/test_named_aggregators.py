"""The aggregators of `--aggregator` in a process, against NumPy and against TFF's own factories."""

import numpy as np
import pytest
import tensorflow_federated as tff

from tests.helpers import harness
from tff_momentum import aggregator_options, algorithms
from tff_momentum.processes import aggregators
from tff_momentum.processes.private_mean import PrivateState
from tff_momentum.runtime import set_execution_context

RATE = 0.5
COHORT = [0, 1, 3]


def seed(number=0):
  return np.array([5, number], np.int32)


def fedavg(text=None, cohorts=(COHORT,) * 3, number=0):
  aggregator = None
  if text is not None:
    found = aggregator_options.parse(text)
    aggregator = aggregators.factory(found, len(COHORT), seed(number))
  return harness.run_product(
    algorithms.fedavg(client_learning_rate=RATE), cohorts, aggregator=aggregator
  )


def deltas(x):
  """Each client's Δ after local SGD from x, in float64."""
  problem = harness.oracle_problem()
  found = []
  for i in COHORT:
    y = x
    for batch in problem.clients[i]:
      y = y - RATE * problem.gradient(y, batch)
    found.append(x - y)
  return found


def clipped(delta, norm):
  return delta * min(1, norm / np.linalg.norm(delta))


def test_clip_bounds_every_upload():
  norm, x = 1.1, harness.flatten(harness.initial_weights())
  lengths = [np.linalg.norm(d) for d in deltas(x)]
  assert min(lengths) < norm < max(lengths)  # some are clipped and some are not
  expected = []
  for _ in range(3):
    x = x - np.mean([clipped(d, norm) for d in deltas(x)], axis=0)
    expected.append(x)
  harness.assert_same_models(fedavg(f"clip(norm={norm})").x, expected)


def test_a_private_mean_without_noise_is_the_clipped_sum_over_a_fixed_number():
  x = harness.flatten(harness.initial_weights())
  for cohort, count in ((COHORT, 3), ([0, 1], 3)):
    found = fedavg("dp(noise_multiplier=1e-12, clip=0.4)", [cohort]).x[0]
    own = [clipped(d, 0.4) for i, d in zip(COHORT, deltas(x), strict=True) if i in cohort]
    np.testing.assert_allclose(found, x - np.sum(own, axis=0) / count, atol=1e-5)


def test_noise_has_the_stated_size_and_depends_on_seed_round_and_tensor():
  quiet, runs = fedavg("clip(norm=1e-6)"), [
    fedavg("dp(noise_multiplier=2e6, clip=1e-6)", number=number) for number in range(40)
  ]  # fmt: skip
  steps = np.diff([[quiet.x[0], *run.x[:1]] for run in runs], axis=1)[:, 0] * len(COHORT)
  assert np.std(steps) == pytest.approx(2.0, rel=0.1)
  assert abs(np.mean(steps)) < 0.3
  first, second = np.diff([harness.flatten(harness.initial_weights()), *runs[0].x[:2]], axis=0)
  assert np.abs(np.corrcoef(first, second)[0, 1]) < 0.9
  assert not np.allclose(first[:4], first[12:16])  # the two tensors
  again = fedavg("dp(noise_multiplier=2e6, clip=1e-6)", number=0)
  np.testing.assert_array_equal(again.x, runs[0].x)


def test_a_private_run_continues_with_the_next_noise():
  text = "dp(noise_multiplier=0.5, clip=0.4)"
  whole = fedavg(text)
  assert isinstance(whole.states[0].aggregators[0], PrivateState)
  aggregator = aggregators.factory(aggregator_options.parse(text), len(COHORT), seed())
  rest = harness.run_product(
    algorithms.fedavg(client_learning_rate=RATE),
    [COHORT, COHORT],
    aggregator=aggregator,
    start=(whole.states[0], {}, 1),
  )
  np.testing.assert_array_equal(rest.x, whole.x[1:])


def test_the_exchanges_of_a_round_have_noise_of_their_own():
  dp = aggregator_options.parse("dp(noise_multiplier=1, clip=1)")
  run = harness.run_product(
    algorithms.mime(client_learning_rate=RATE),
    [COHORT],
    aggregator=lambda number: aggregators.factory(dp, 3, seed(number)),
  )
  seeds = [np.asarray(state.query[0].seed) for state in run.states[0].aggregators]
  assert seeds[0].tolist() != seeds[1].tolist()


def test_robust_is_tffs_own():
  ours = fedavg("robust()")
  theirs = harness.run_product(
    algorithms.fedavg(client_learning_rate=RATE),
    (COHORT,) * 3,
    aggregator=tff.learning.robust_aggregator(),
  )
  np.testing.assert_array_equal(ours.x, theirs.x)
  norms = [np.linalg.norm(d) for d in deltas(harness.flatten(harness.initial_weights()))]
  assert max(norms) > 1  # the first bound of the clipping
  assert not np.allclose(ours.x[0], fedavg().x[0])


@pytest.mark.parametrize("text", ["dp(noise_multiplier=0.5, clip=0.4)", "clip(0.4)", "robust()"])
def test_tffs_worker_gives_the_same(text):
  ours = fedavg(text)
  try:
    set_execution_context("tff")
    theirs = fedavg(text)
  finally:
    set_execution_context("inprocess")
  harness.assert_same_models(ours.x, theirs.x)
