"""Checkpoints: states come back to the bit, old ones are deleted, and damaged ones are skipped."""

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import shared_runs
from tff_momentum.simulation.checkpoints import Checkpoints
from tff_momentum.simulation.client_store import MemoryStore


@pytest.fixture
def process():
  return shared_runs.process("scaffold", client_learning_rate=0.1, num_clients=5)


@pytest.fixture
def store(process):
  return MemoryStore(lambda client: process.initial_client_state([0, 0]))


def state_after(process, round_number):
  """A state whose numbers depend on the round."""
  state = tf.nest.map_structure(
    lambda leaf: np.full_like(np.asarray(leaf), round_number), process.initialize()
  )
  return state._replace(round=np.int32(round_number))


def save(checkpoints, process, store, round_number):
  client = tf.nest.map_structure(
    lambda leaf: np.full_like(np.asarray(leaf), round_number), store.load(["a"])[0]
  )
  store.save(["a"], [client], round_number - 1)
  checkpoints.save(state_after(process, round_number))


def assert_same(left, right):
  tf.nest.map_structure(np.testing.assert_array_equal, left, right)


def names(folder):
  return sorted(path.name for path in folder.iterdir())


def test_without_checkpoints_a_run_starts_from_the_beginning(tmp_path, process, store):
  store.save(["a"], store.load(["a"]), 0)
  assert_same(Checkpoints(tmp_path / "none", process, store).resume(), process.initialize())
  assert store.round == 0


def test_the_newest_checkpoint_comes_back_and_older_ones_are_deleted(tmp_path, process, store):
  checkpoints = Checkpoints(tmp_path, process, store, keep=2)
  for round_number in (5, 10, 15):
    save(checkpoints, process, store, round_number)
  kept = store.load(["a"])
  store.save(["a"], [tf.nest.map_structure(lambda leaf: 0 * leaf, kept[0])], 17)
  assert names(tmp_path) == ["00000010", "00000015"]
  assert_same(checkpoints.resume(), state_after(process, 15))
  assert store.round == 15
  assert_same(store.load(["a"]), kept)


@pytest.mark.parametrize("file", ["server", "clients", "manifest.json"])
def test_a_damaged_checkpoint_is_skipped_with_a_warning(tmp_path, process, store, file):
  checkpoints = Checkpoints(tmp_path, process, store)
  for round_number in (5, 10):
    save(checkpoints, process, store, round_number)
  path = tmp_path / "00000010" / file
  path.write_bytes(path.read_bytes()[:-1])
  with pytest.warns(UserWarning, match="checkpoint 00000010 cannot be used"):
    assert_same(checkpoints.resume(), state_after(process, 5))
  assert store.round == 5


def test_what_a_killed_process_left_half_written_is_ignored(tmp_path, process, store):
  checkpoints = Checkpoints(tmp_path, process, store)
  save(checkpoints, process, store, 5)
  (tmp_path / "00000010.part").mkdir()
  (tmp_path / "00000010.part" / "server").write_bytes(b"half")
  assert_same(checkpoints.resume(), state_after(process, 5))
  save(checkpoints, process, store, 10)
  assert names(tmp_path) == ["00000005", "00000010"]


def test_keeping_no_checkpoint_is_refused(tmp_path, process, store):
  with pytest.raises(ValueError, match="keep must be a whole number of at least 1; found 0"):
    Checkpoints(tmp_path, process, store, keep=0)
