"""The newer algorithms with compressed uploads and with asynchronous clients, where these fit."""

import numpy as np
import pytest

from tests.helpers import direct_runs, harness, shared_runs
from tff_momentum import algorithms
from tff_momentum.client import LocalWork
from tff_momentum.processes.client_input import ClientInput
from tff_momentum.processes.process import build_process
from tff_momentum.registry import ALGORITHMS
from tff_momentum.transforms.asynchronous import asynchronous
from tff_momentum.transforms.compression import compressed

NEWER = ("fedacg", "scaffold_m", "fednova", "fedexp", "fedinit", "fedsam", "mofedsam", "fedspeed", "fedlion",
         "fedmuon", "diloco", "fedadamw")  # fmt: skip
# Their servers derive part of the upload from the rest, or measure it.
UNCOMPRESSED = ("fedexp", "mofedsam", "fedmuon", "fedadamw")
STATEFUL = ("scaffold_m", "fedinit", "fedspeed", "diloco")
FACTS = {"client_learning_rate": 0.02, "num_clients": len(harness.SIZES)}


def build(name):
  known = ALGORITHMS[name].hyperparameters
  return algorithms.builder(name)(**{key: v for key, v in FACTS.items() if key in known})


def process(algorithm):
  return build_process(algorithm, harness.softmax_model(), work=LocalWork(**dict(shared_runs.WORK)))


@pytest.mark.parametrize("name", NEWER)
def test_compressed_uploads(name):
  """32 bits change nothing; 12 bits change little and need fewer bytes."""
  algorithm = build(name)
  if name in UNCOMPRESSED:
    with pytest.raises(ValueError, match="uncompressed uploads"):
      compressed(algorithm, "qsgd:12")
    return
  exact, same, close = (
    direct_runs.run_algorithm(each).x
    for each in (algorithm, compressed(algorithm, "qsgd:32"), compressed(algorithm, "qsgd:12"))
  )
  np.testing.assert_array_equal(exact, same)
  assert 0 < np.abs(np.subtract(exact, close)).max() < 0.05
  packed, dense = process(compressed(algorithm, "qsgd:12")), process(algorithm)
  assert packed.bytes_down(1) == dense.bytes_down(1)
  assert packed.bytes_up(1) < 0.7 * dense.bytes_up(1)  # 12 of 32 bits, and a norm for each tensor
  harness.assert_same_models(harness.run_process(packed).x, close)


@pytest.mark.parametrize("name", NEWER)
def test_asynchronous_clients(name):
  """Without delay the algorithm is the same; a late client takes the message of its starting round."""
  algorithm = build(name)
  if name in STATEFUL:
    with pytest.raises(ValueError, match="keep no state"):
      asynchronous(algorithm, 2)
    return
  late, plain = process(asynchronous(algorithm, 2)), process(algorithm)
  ours, exact = harness.run_process(late), harness.run_process(plain)
  np.testing.assert_array_equal(ours.x, exact.x)
  assert (late.bytes_down(1), late.bytes_up(1)) == (plain.bytes_down(1), plain.bytes_up(1))

  def after(state, age):
    client = ClientInput(
      harness.client_seed(3, 1), (), harness.client_dataset(1), staleness=np.int32(age)
    )
    return harness.flatten(late.weights(late.next(state, [client]).state))

  now, before = after(ours.states[-1], 0), after(ours.states[-1], 1)
  assert np.isfinite(before).all()
  assert np.abs(now - before).max() > 1e-6
