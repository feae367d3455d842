"""What the runtime's tests share: TFF's stock worker as the reference, one process for each test module."""

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff
import tree

from tff_momentum import runtime


@pytest.fixture(scope="module")
def worker():
  """TFF's own worker."""
  return runtime.create_worker_context()


@pytest.fixture(scope="module")
def in_process():
  """The runtime under test."""
  return runtime.create_inprocess_context("cpu")


@pytest.fixture(scope="module")
def agree(in_process, worker):
  """A function that calls a computation in both contexts, compares the results, and returns ours."""

  def check(computation, *arguments, rtol=0.0, atol=0.0):
    results = []
    for context in (worker, in_process):
      with tff.framework.get_context_stack().install(context):
        results.append(computation(*arguments))
    expected, found = results
    assert_same(expected, found, rtol, atol)
    return found

  return check


def assert_same(expected, found, rtol=0.0, atol=0.0):
  """Compares values and the types of all containers and leaves."""
  tree.assert_same_structure(expected, found, check_types=True)
  pairs = zip(tree.flatten_with_path(expected), tree.flatten(found), strict=True)
  for (path, a), b in pairs:
    assert type(a) is type(b), path
    if isinstance(a, tf.data.Dataset):
      assert_same(list(a), list(b), rtol, atol)
    elif isinstance(a, (str, bytes)):
      assert a == b, path
    elif isinstance(a, (tf.RaggedTensor, tf.SparseTensor)):
      assert_same(*(tree.flatten(tf.nest.flatten(x, expand_composites=True)) for x in (a, b)))
    elif rtol == atol == 0.0 or np.asarray(a).dtype == object:
      np.testing.assert_array_equal(b, a, err_msg=str(path), strict=True)
    else:
      assert (a.dtype, a.shape) == (b.dtype, b.shape), path
      np.testing.assert_allclose(b, a, rtol, atol, err_msg=str(path))
