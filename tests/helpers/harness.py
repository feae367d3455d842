"""The testing kit's small problem, under one name: the tests compare the product with the oracle on it."""

import functools

import numpy as np

from tff_momentum.client import LocalWork
from tff_momentum.processes.process import build_process
from tff_momentum.testing import runs
from tff_momentum.testing.runs import RecordedRun as Run
from tff_momentum.testing.runs import client_seed, flatten
from tff_momentum.testing.softmax import (
  BATCH,
  CLASSES,
  COHORTS,
  FEATURES,
  SIZES,
  client_dataset,
  client_examples,
  initial_weights,
  oracle_problem,
  softmax_model,
)

__all__ = [
  "BATCH",
  "CLASSES",
  "COHORTS",
  "FEATURES",
  "SIZES",
  "Run",
  "assert_same_models",
  "client_dataset",
  "client_examples",
  "client_seed",
  "flatten",
  "initial_weights",
  "oracle_problem",
  "run_process",
  "run_product",
  "softmax_model",
]


def run_product(
  algorithm, cohorts=COHORTS, *, model=None, aggregator=None, start=None, **work
) -> Run:
  """Builds the process of an algorithm and runs it; `start` is that of `run_process`."""
  process = build_process(
    algorithm, model or softmax_model(), work=LocalWork(**work), aggregator=aggregator
  )
  return run_process(process, cohorts, start=start)


@functools.wraps(runs.run_process)
def run_process(process, cohorts=COHORTS, *, dataset=client_dataset, **rest) -> Run:
  return runs.run_process(process, cohorts, dataset=dataset, **rest)


def assert_same_models(actual, expected, tolerance=1e-5):
  """Asserts that the models after every round agree within an absolute plus a relative tolerance."""
  assert len(actual) == len(expected)
  for t, (a, b) in enumerate(zip(actual, expected, strict=True)):
    np.testing.assert_allclose(a, b, rtol=tolerance, atol=tolerance, err_msg=f"round {t}")
