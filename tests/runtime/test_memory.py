"""The in-process runtime's memory does not grow over many rounds of benchmark item B."""

import json
import subprocess
import sys

import pytest

from tests import ROOT

ROUNDS, SETTLED = 500, 50

PROGRAM = f"""
import collections, json, sys
import numpy as np, psutil, tensorflow as tf
import tff_momentum as tfm
from experiments.benchmarks import work_items, models
from tff_momentum.processes.process import ClientInput

item = work_items.ITEMS["B"]
arrays = [work_items.examples(item, i) for i in range(200)]
def batches(i):
  x, y = arrays[i]
  return tf.data.Dataset.from_tensor_slices(collections.OrderedDict(x=x, y=y)).batch(item.batch)

clients = [batches(i) for i in range(200)]
data_of = {{"kept": clients.__getitem__, "new": batches}}[sys.argv[1]]
tfm.set_execution_context("inprocess")
model = tfm.from_keras(
  lambda: models.build(item), loss=models.loss(), batch_spec=clients[0].element_spec
)
process = tfm.build_process(tfm.algorithms.fedavgm(client_learning_rate=0.05), model)
state, draw, sizes = process.initialize(), np.random.default_rng(0), []
for t in range({ROUNDS}):
  cohort = draw.choice(200, draw.integers(10, 201), replace=False)
  seeds = [np.array([t, i], np.int32) for i in cohort]
  state = process.next(state, [ClientInput(s, (), data_of(i)) for s, i in zip(seeds, cohort)]).state
  sizes.append(psutil.Process().memory_info().rss / 2**20)
print(json.dumps(sizes))
"""


@pytest.mark.slow
@pytest.mark.parametrize("data", ["kept", "new"])
def test_memory_stays_flat_over_five_hundred_rounds(data):
  """The clients' data sets are created once, or again in each round."""
  done = subprocess.run(
    [sys.executable, "-c", PROGRAM, data], cwd=ROOT, capture_output=True, text=True, timeout=1800
  )
  assert done.returncode == 0, done.stderr[-2000:]
  sizes = json.loads(done.stdout.splitlines()[-1])
  growth = max(sizes[SETTLED:]) - sizes[SETTLED - 1]
  print(
    f"\ndata sets {data}: {sizes[SETTLED - 1]:.0f} MiB after round {SETTLED}, then +{growth:.0f} MiB"
  )
  assert growth < 50
