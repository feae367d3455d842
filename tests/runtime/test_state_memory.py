"""A large server state is in memory once between rounds, and as few times as possible during a round."""

import json
import subprocess
import sys

import pytest

from tests import ROOT

PROGRAM = """
import collections, json, sys
from typing import Any, NamedTuple
import numpy as np, psutil, tensorflow as tf
import tff_momentum as tfm
from tff_momentum import trees
from tff_momentum.algorithm import Algorithm, Exchange, Update
from tff_momentum.simulation import loop
from tff_momentum.simulation.checkpoints import Checkpoints
from tff_momentum.simulation.client_store import MemoryStore

FEATURES, TIMES, RATE = 500_000, 100, 0.01  # the state is 100 models of 4 MB

class State(NamedTuple):
  x: Any
  large: Any

def changing():
  def client_update(client, x, state):
    y = client.steps(lambda y, grad: trees.map(lambda y, g: y - RATE * g, y, grad(y)), x)
    return Update(trees.subtract(x, y))
  return Algorithm(
    lambda x: State(x, tf.zeros([TIMES, 2 * FEATURES])),
    (Exchange(
      lambda state, t: state.x,
      client_update,
      lambda state, delta, info: State(trees.subtract(state.x, delta), state.large + 1.0),
    ),),
    lambda state: state.x,
  )

def queue():
  return tfm.algorithms.ghbm(client_learning_rate=RATE, tau=TIMES)

x, y = np.ones([2, FEATURES], np.float32), np.zeros([2], np.int32)
data = tf.data.Dataset.from_tensor_slices(collections.OrderedDict(x=x, y=y)).batch(2)

class Task:
  clients = ["a", "b"]
  dataset = staticmethod(lambda client, seed, batch_size: data)
  evaluation = staticmethod(lambda batch_size: data)

tfm.set_execution_context("inprocess")
layer = lambda: tf.keras.layers.Dense(2, input_shape=[FEATURES], use_bias=False)
model = tfm.from_keras(
  lambda: tf.keras.Sequential([layer()]),
  loss=tf.keras.losses.SparseCategoricalCrossentropy(from_logits=True),
  batch_spec=data.element_spec,
)
process = tfm.build_process({"changing": changing, "queue": queue}[sys.argv[1]](), model)
store = MemoryStore(loop.client_initializer(process, 0))
checkpoints = Checkpoints(sys.argv[2], process, store)

def go(until):
  options = dict(clients_per_round=2, rounds_per_eval=0, store=store)
  for last in loop.rounds(process, Task, total_rounds=until, state=checkpoints.resume(), **options):
    pass
  checkpoints.save(last.state)

before = psutil.Process().memory_info().rss
go(until=int(sys.argv[3]))
go(until=int(sys.argv[3]) + 2)
# getrusage's peak would include the memory of the test process that started this one.
status = dict(line.split(":", 1) for line in open("/proc/self/status"))
peak = int(status["VmHWM"].split()[0]) * 1024
print(json.dumps((peak - before) / (4 * TIMES * 2 * FEATURES)))
"""


# A state that changes completely needs an old and a new copy; a queue shares all but one of its models.
@pytest.mark.parametrize(("kind", "rounds", "copies"), [("changing", 3, 2), ("queue", 102, 1)])
def test_few_copies_of_a_large_state_are_in_memory(kind, rounds, copies, tmp_path):
  """Over the first rounds, a checkpoint, and the rounds after resuming from it."""
  done = subprocess.run(
    [sys.executable, "-c", PROGRAM, kind, str(tmp_path), str(rounds)],
    cwd=ROOT, capture_output=True, text=True, timeout=600,
  )  # fmt: skip
  assert done.returncode == 0, done.stderr[-2000:]
  found = json.loads(done.stdout.splitlines()[-1])
  print(f"\n{kind}: {found:.2f} copies")
  assert found < copies + 0.75  # TensorFlow itself needs memory when it starts
