"""The client stores: saved states are loaded again, and after a crash the store fits the checkpoint."""

import collections
import json
import multiprocessing
import os
import random
import signal
import time

import numpy as np
import pytest
import tensorflow as tf

from tests.helpers import harness, killable_run
from tff_momentum import algorithms
from tff_momentum.processes.process import ClientInput
from tff_momentum.simulation.client_store import LmdbStore, MemoryStore

State = collections.namedtuple("State", "weights seen flag")


def init(client):
  return State((np.full((2, 3), len(client), np.float32), np.zeros(4)), np.int32(0), np.bool_(True))


def moved(state, by):
  return State(tuple(w + by for w in state.weights), np.int32(state.seen + 1), np.bool_(False))


@pytest.fixture(params=["memory", "lmdb"])
def store(request, tmp_path):
  store = MemoryStore(init) if request.param == "memory" else LmdbStore(tmp_path / "store", init)
  yield store
  store.close()


def assert_same(left, right):
  tf.nest.assert_same_structure(left, right)
  for a, b in zip(tf.nest.flatten(left), tf.nest.flatten(right), strict=True):
    assert np.asarray(a).dtype == np.asarray(b).dtype
    np.testing.assert_array_equal(a, b)


def play(store, cohorts, first=0):
  """Each client adds the number of the round to its state."""
  for t, cohort in enumerate(cohorts, first):
    store.save(cohort, [moved(state, t) for state in store.load(cohort)], t)


def test_states_come_back_and_unseen_clients_start_from_init(store):
  assert_same(store.load(["a", "bc"]), [init("a"), init("bc")])
  play(store, [["a", "ü" * 300], ["a", "bc"]])
  assert store.round == 2
  once, twice = moved(init("ü" * 300), 0), moved(moved(init("a"), 0), 1)
  assert_same(store.load(["ü" * 300, "a", "z"]), [once, twice, init("z")])


def test_a_snapshot_is_restored_whatever_was_saved_after_it(store, tmp_path):
  play(store, [["a", "b"], ["b", "c"]])
  store.snapshot(tmp_path / "first")
  first = store.load("abcd")
  play(store, [["a", "d"], ["b", "a"]], 2)
  store.snapshot(tmp_path / "second")
  second = store.load("abcd")
  play(store, [["a", "b", "c", "d"]], 4)
  store.restore(tmp_path / "second")
  assert_same(store.load("abcd"), second)
  store.restore(tmp_path / "first")
  assert store.round == 2
  assert_same(store.load("abcd"), first)
  play(store, [["a", "d"], ["b", "a"]], 2)
  assert_same(store.load("abcd"), second)
  store.clear()
  assert store.round == 0
  assert_same(store.load("abcd"), [init(i) for i in "abcd"])


def test_a_round_is_not_saved_twice(store):
  play(store, [["a"], ["a"]])
  with pytest.raises(ValueError, match="Expected the states of round 2 or later"):
    store.save(["a"], [init("a")], 1)


def test_a_store_is_read_again_from_disk_and_from_a_snapshot(tmp_path):
  disk, memory = LmdbStore(tmp_path / "store", init), MemoryStore(init)
  for store in (disk, memory):
    play(store, [["a", "b"], ["b"]])
  memory.snapshot(tmp_path / "all")
  disk.close()
  disk, again = LmdbStore(tmp_path / "store", init), MemoryStore(init)
  again.restore(tmp_path / "all")
  for store in (disk, again):
    assert store.round == 2
    assert_same(store.load("abc"), memory.load("abc"))
  disk.close()


def test_releasing_a_snapshot_deletes_only_versions_that_it_does_not_need(tmp_path):
  store = LmdbStore(tmp_path / "store", init)
  play(store, [["a", "b"], ["a"], ["a", "c"]])
  store.snapshot(tmp_path / "old")
  play(store, [["a"], ["b"]], 3)
  store.snapshot(tmp_path / "new")
  play(store, [["a", "d"]], 5)
  latest = store.load("abcd")

  def versions():
    store.snapshot(tmp_path / "latest")  # waits until all is written
    with store._env.begin() as txn:
      return store._versions.count(txn)

  assert versions() == 9
  store.release(tmp_path / "new")
  assert versions() == 5
  assert_same(store.load("abcd"), latest)
  with pytest.raises(ValueError, match="do not belong together"):
    store.restore(tmp_path / "old")
  store.restore(tmp_path / "new")
  assert store.load("a")[0].seen == 4
  assert store.load("d")[0].seen == 0
  store.close()


def test_a_snapshot_of_another_store_is_refused(tmp_path):
  ours, other = LmdbStore(tmp_path / "ours", init), LmdbStore(tmp_path / "other", init)
  other.snapshot(tmp_path / "stamp")
  with pytest.raises(ValueError, match="do not belong together"):
    ours.restore(tmp_path / "stamp")
  ours.snapshot(tmp_path / "stamp")
  ours.clear()
  with pytest.raises(ValueError, match="do not belong together"):
    ours.restore(tmp_path / "stamp")


def test_states_of_another_algorithm_are_refused(tmp_path):
  store = LmdbStore(tmp_path / "store", init)
  play(store, [["a"]])
  with pytest.raises(ValueError, match="Expected a client state of"):
    store.save(["a"], [State((np.zeros(2), np.zeros(4)), np.int32(0), np.bool_(True))], 1)
  store.close()
  store = LmdbStore(tmp_path / "store", lambda client: (np.zeros(3),))
  with pytest.raises(ValueError, match="written by another algorithm or model"):
    store.load(["a"])


def test_the_map_grows(tmp_path):
  store = LmdbStore(tmp_path / "store", lambda client: np.zeros(30_000), map_bytes=2**16)
  for t in range(5):
    ids = [str(i) for i in range(t, t + 10)]
    store.save(ids, [state + 1 for state in store.load(ids)], t)
  assert [float(state.mean()) for state in store.load(["0", "4", "13"])] == [1, 5, 1]


@pytest.mark.parametrize("kind", ["memory", "lmdb"])
def test_a_process_trains_the_same_with_stored_client_states(kind, tmp_path):
  algorithm = algorithms.builder("adabest")(client_learning_rate=0.1)
  plain = harness.run_product(algorithm)

  def new(client):
    return plain.process.initial_client_state(harness.client_seed(0, int(client)))

  store = MemoryStore(new) if kind == "memory" else LmdbStore(tmp_path / "store", new)
  state = plain.process.initialize()
  for t, cohort in enumerate(harness.COHORTS):
    ids = [str(i) for i in cohort]
    state, states, _ = plain.process.next(
      state,
      [
        ClientInput(harness.client_seed(t, i), kept, harness.client_dataset(i))
        for i, kept in zip(cohort, store.load(ids), strict=True)
      ],
    )
    store.save(ids, states, t)
    if kind == "memory":
      store.snapshot(tmp_path / "all")
      store = MemoryStore(new)
      store.restore(tmp_path / "all")
  np.testing.assert_array_equal(harness.flatten(plain.process.weights(state)), plain.x[-1])


def test_a_run_killed_at_any_instant_and_resumed_equals_one_never_stopped(tmp_path):
  context = multiprocessing.get_context("forkserver")
  context.set_forkserver_preload(["tests.helpers.killable_run"])
  folder, delays = tmp_path / "killed", random.Random(0)
  folder.mkdir()
  for _ in range(10):
    seen = killable_run.newest(folder)
    child = context.Process(target=killable_run.run, args=(str(folder), 10**9))
    child.start()
    while (
      killable_run.newest(folder) < seen + 2 * killable_run.PERIOD
    ):  # wait until it is under way
      assert child.is_alive()
      time.sleep(0.001)
    time.sleep(delays.random() * 0.05)
    os.kill(child.pid, signal.SIGKILL)
    child.join()
    assert child.exitcode == -signal.SIGKILL
  last = killable_run.newest(folder) + 3
  killable_run.run(str(folder), last)
  (tmp_path / "whole").mkdir()
  killable_run.run(str(tmp_path / "whole"), last)
  servers, states = [], []
  for run in (folder, tmp_path / "whole"):
    servers.append(json.loads((run / f"checkpoint-{last}" / "server").read_text()))
    store = LmdbStore(run / "store", killable_run.new_client)
    states.append(store.load([str(i) for i in range(killable_run.CLIENTS)]))
    store.close()
  assert servers[0] == servers[1]
  np.testing.assert_array_equal(states[0], states[1])
