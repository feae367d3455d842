"""Runs that several tests share, built once for each test process: building a process takes seconds."""

import functools

from tests.helpers import harness
from tests.oracle import base_optimizers as base
from tff_momentum import algorithms
from tff_momentum.client import LocalWork
from tff_momentum.processes.process import build_process

EVERYONE = (tuple(range(len(harness.SIZES))),) * 3
WORK = (("epochs", 2), ("weight_decay", 0.1))
ONE_STEP = (("steps", 1), ("weight_decay", 0.1))
BASES = {
  "sgd": base.sgd(),
  "sgdm(0.8)": base.sgdm(0.8),
  "sgdm(0.8, dampened=True)": base.sgdm(0.8, dampened=True),
  "rmsprop(0.9, epsilon=0.01)": base.rmsprop(0.9, 0.01),
  "adagrad(epsilon=0.01, v0=0.5)": base.adagrad(0.01, 0.5),
  "adam(0.9, 0.99, epsilon=0.01)": base.adam(0.9, 0.99, 0.01),
}  # the text that the product parses -> the oracle's optimizer


@functools.cache
def process(name, *, work=WORK, model=harness.softmax_model, **hyperparameters):
  """Builds the process of an algorithm once; `work` is a tuple of pairs, so that it can be a cache key."""
  algorithm = algorithms.builder(name)(**hyperparameters)
  return build_process(algorithm, model(), work=LocalWork(**dict(work)))


@functools.cache
def run(name, *, cohorts=None, dataset=harness.client_dataset, **rest) -> harness.Run:
  """Runs an algorithm once, by default for three rounds on the problem of `harness`."""
  return harness.run_process(process(name, **rest), cohorts or harness.COHORTS, dataset=dataset)


def assert_same(left: harness.Run, right: harness.Run, tolerance=2e-6) -> None:
  """Asserts that two runs have the same model after every round, up to float32 rounding."""
  harness.assert_same_models(left.x, right.x, tolerance)
