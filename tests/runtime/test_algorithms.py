"""Every algorithm gives the same results in process as on TFF's worker, and always the same bits."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.helpers import contract_problem as problem
from tests.helpers import harness
from tff_momentum import runtime
from tff_momentum.registry import ALGORITHMS

QUICK = ("scaffold", "mime", "fedglomo")


@pytest.fixture(scope="module")
def contexts():
  made = {n: runtime.create_inprocess_context("cpu", max_clients_in_flight=n) for n in (1, 3)}
  return {**made, "worker": runtime.create_worker_context()}


def arrays_of(context, process):
  """Returns the states, metrics and client states of three rounds."""
  with tff.framework.get_context_stack().install(context):
    run = harness.run_process(process, problem.COHORTS[:3], dataset=problem.dataset)
  return tf.nest.flatten(problem.as_arrays([run.states, run.metrics, run.clients]))


@pytest.mark.parametrize(
  "name", [n if n in QUICK else pytest.param(n, marks=pytest.mark.slow) for n in ALGORITHMS]
)
def test_an_algorithm_equals_itself_on_the_stock_worker(contexts, name):
  process = problem.compiled(name)
  one, three, worker = (arrays_of(contexts[k], process) for k in (1, 3, "worker"))
  for a, b, c in zip(one, three, worker, strict=True):
    assert a.tobytes() == b.tobytes()
    np.testing.assert_allclose(a, c, rtol=1e-5, atol=1e-5)
