"""A guard for every patch of other projects' code: it applies, it works, and it is still needed.

`load_when_used` has its guard in `tests/test_packaging.py`, beside the other tests of import times.
"""

import gc
import subprocess
import sys

import numpy as np
import psutil
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests import ROOT
from tff_momentum.runtime import compat


def blocks_left_behind(make, count: int = 1000) -> float:
  """Returns the blocks that a call leaks: the least of five tries, since other threads allocate too."""
  left = []
  for _ in range(5):
    gc.collect()
    before = sys.getallocatedblocks()
    for _ in range(count):
      make()
    gc.collect()
    left.append((sys.getallocatedblocks() - before) / count)
  return min(left)


def test_a_tensor_leaves_no_memory_behind():
  x = tf.constant([1.0, 2.0])
  assert blocks_left_behind(lambda: x + x) < 0.1  # unpatched: 1
  assert blocks_left_behind(lambda: tf.data.Dataset.range(3)) < 0.1  # unpatched: 4


def test_tensors_still_take_attributes():
  def mark(tensor: tf.Tensor, value: int) -> int:
    tensor.mark = value
    return tensor.mark

  tensors = [tf.constant(i) for i in range(100)]  # enough for Python to specialise the bytecode
  assert [mark(x, i) for i, x in enumerate(tensors)] == list(range(100))
  assert tensors[7].__dict__ == {"mark": 7}
  assert not hasattr(tf.constant(0), "mark")


def test_patching_twice_is_harmless():
  compat.stop_eager_tensor_leak()
  assert float(tf.constant(2.0) * 3) == 6


LEAK = """
import gc, sys
import tensorflow as tf
import tensorflow_federated as tff
x = tf.constant([1.0, 2.0])
gc.collect()
before = sys.getallocatedblocks()
for _ in range(10_000):
  x + x
gc.collect()
print((sys.getallocatedblocks() - before) / 10_000)
"""


def run(*arguments: str, **options) -> subprocess.CompletedProcess:
  return subprocess.run(
    [sys.executable, *arguments], cwd=ROOT, capture_output=True, text=True, timeout=300, **options
  )


def test_tensorflow_alone_still_leaks():
  """When this fails, TensorFlow is mended: remove `stop_eager_tensor_leak`."""
  assert float(run("-c", LEAK).stdout) > 0.9


PATCHED = """
{}
from tensorflow.python.framework import ops
assert ops.EagerTensor.__dictoffset__ == 0
"""


@pytest.mark.parametrize(
  "start",
  [
    "from tff_momentum import runtime; runtime.create_inprocess_context()",
    "from tff_momentum.runtime.ray import actor; actor.ClientActor()",
  ],
  ids=["in_process", "actor"],
)
def test_whatever_runs_clients_applies_the_patch(start):
  done = run("-c", PATCHED.format(start))
  assert done.returncode == 0, done.stderr


def test_tff_alone_still_complains_at_exit():
  """When this fails, TFF is mended: remove `end_default_worker_at_exit`."""
  assert "object has no attribute 'Popen'" in run("-c", "import tensorflow_federated").stderr


@pytest.mark.parametrize(
  "arguments",
  [
    ("-c", "import tff_momentum, tensorflow_federated"),
    ("-c", "import tensorflow_federated, tff_momentum"),
    ("-m", "tff_momentum.describe", "fedavg"),
  ],
  ids=["first", "second", "describe"],
)
def test_a_program_exits_in_silence(arguments):
  done = run(*arguments)
  assert (done.returncode, done.stderr) == (0, "")


USES_TFFS_OWN_WORKER = """
import signal
signal.signal(signal.SIGINT, signal.SIG_IGN)  # as in a shell's background jobs
import psutil, tff_momentum, tensorflow_federated as tff
assert tff.tensorflow.computation(lambda: 10)() == 10
print(*(child.pid for child in psutil.Process().children(recursive=True)))
"""


def test_the_worker_of_tffs_default_context_ends_with_the_program():
  done = run("-c", USES_TFFS_OWN_WORKER)
  assert (done.returncode, done.stderr) == (0, "")
  workers = [int(pid) for pid in done.stdout.split()]
  assert workers
  assert not any(map(psutil.pid_exists, workers))


def test_equal_types_are_read_once(monkeypatch):
  from tensorflow_federated.python.core.impl.types import type_serialization

  compat.read_types_once()
  patched = type_serialization.deserialize_type
  compat.read_types_once()
  assert type_serialization.deserialize_type is patched
  reads = []
  original = type_serialization.dtype_utils.from_proto
  monkeypatch.setattr(
    type_serialization.dtype_utils, "from_proto", lambda dtype: reads.append(1) or original(dtype)
  )
  wanted = tff.types.to_type([("a", np.float32), ("b", [np.int32, (np.int64, [3, 17])])])
  proto = type_serialization.serialize_type(wanted)
  assert str(patched(proto)) == str(wanted)
  before = len(reads)
  patched(type(proto).FromString(proto.SerializeToString()))
  assert len(reads) == before
  leaf = type_serialization.serialize_type(wanted.a)
  patched.__wrapped__(leaf), patched.__wrapped__(leaf)
  assert len(reads) == before + 2  # TFF itself reads an equal type again
