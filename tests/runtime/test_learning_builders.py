"""Every `tff.learning` builder gives the same results in process as on TFF's worker, and the same bits."""

import numpy as np
import pytest
import tensorflow_federated as tff
import tree

from tests.helpers import learning_builders
from tff_momentum import runtime


@pytest.fixture(scope="module")
def contexts():
  made = {n: runtime.create_inprocess_context("cpu", max_clients_in_flight=n) for n in (1, 3)}
  made["worker"] = runtime.create_worker_context()
  return made


def _run(context, process, data, state=None):
  with tff.framework.get_context_stack().install(context):
    state = process.initialize() if state is None else state
    return state, learning_builders.run_rounds(process, data, state)


def _assert_same_types(expected, found):
  tree.assert_same_structure(expected, found, check_types=True)
  for a, b in zip(tree.flatten(expected), tree.flatten(found), strict=True):
    assert type(a) is type(b)


_QUICK = ("weighted_fed_avg", "fed_avg_functional", "weighted_mime_lite", "fed_kmeans", "robust")


@pytest.mark.parametrize(
  "name",
  [
    name if name in _QUICK else pytest.param(name, marks=pytest.mark.slow)
    for name in learning_builders.CASES
  ],
)
def test_builder_equals_the_stock_worker(contexts, name):
  case = learning_builders.CASES[name]
  process = case.process()
  state, one = _run(contexts[1], process, case.data)
  _, three = _run(contexts[3], process, case.data, state)
  for a, b in zip(tree.flatten(one), tree.flatten(three), strict=True):
    np.testing.assert_array_equal(a, b)

  _, expected = _run(contexts["worker"], process, case.data, state)
  _assert_same_types(expected, one)
  for (path, value), found in zip(tree.flatten_with_path(expected), tree.flatten(one), strict=True):
    if not isinstance(value, bytes):
      np.testing.assert_allclose(found, value, rtol=1e-5, atol=1e-5, err_msg=str(path))
