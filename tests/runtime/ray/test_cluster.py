"""The Ray runtime on a real cluster of three nodes on this machine."""

import logging
import pathlib
import subprocess
import sys
import threading
import time

import numpy as np
import psutil
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.helpers import harness, programs, ray_endings, ray_problem
from tff_momentum import algorithms
from tff_momentum.processes.learning_process import as_learning_process
from tff_momentum.processes.process import ClientInput, build_process
from tff_momentum.runtime import (
  AsyncContext,
  ClientBatches,
  DataReference,
  client_labels,
  create_async_context,
  provide,
  set_execution_context,
  source,
)
from tff_momentum.runtime.references import DataLeaf

ray = pytest.importorskip("ray")
from ray.cluster_utils import Cluster  # noqa: E402

from tests import ROOT  # noqa: E402
from tff_momentum.runtime.ray import executor, pool, wire  # noqa: E402

LOADER = "tests.helpers.ray_problem:load"
STARTUP_SECONDS = 500
# Also loopback; Ray would replace 127.0.0.1 by the address that other machines see.
NODE = {"num_cpus": 1, "object_store_memory": 100 * 2**20, "node_ip_address": "127.0.0.2"}
FEDAVG = algorithms.fedavg(client_learning_rate=0.1)
MIME = algorithms.mime(client_learning_rate=0.1)
SCAFFOLD = algorithms.scaffold(client_learning_rate=0.1, num_clients=8)


def _by_reference(examples: int, **options):
  if options.get("batches"):
    provide(source(LOADER, examples=examples, **options), ray_problem.load(examples, **options))
  return lambda i, t: DataReference(source(LOADER, examples=examples, **options), str(i), (t, i), 3)


def _by_value(i: int, t: int) -> tf.data.Dataset:
  return harness.client_dataset(i % len(harness.SIZES))


def _batches_by_value(i: int, t: int) -> ClientBatches:
  examples = harness.client_examples(i % len(harness.SIZES))
  return ClientBatches(examples, batch_size=harness.BATCH, seed=(t, i))


def _run(algorithm, data, clients: int, rounds: int = 2):
  """Returns the outputs of all rounds as NumPy arrays."""
  process = build_process(algorithm, harness.softmax_model())
  state = process.initialize()
  kept = [process.initial_client_state([0, i]) for i in range(clients)]
  outputs = []
  for t in range(rounds):
    cohort = [ClientInput(np.array([t, i], np.int32), kept[i], data(i, t)) for i in range(clients)]
    state, kept, metrics = process.next(state, cohort)
    outputs.append((state, kept, metrics))
  return tf.nest.map_structure(np.asarray, outputs)


def _assert_same_bits(expected, found):
  tf.nest.map_structure(
    lambda a, b: np.testing.assert_array_equal(a, b, strict=True), expected, found
  )


@pytest.fixture(scope="module")
def cluster():
  before = {process.pid for process in psutil.Process().children(recursive=True)}
  made = Cluster(initialize_head=True, head_node_args={**NODE, "include_dashboard": False})
  for _ in range(2):
    made.add_node(**NODE)
  yield made
  started = [p for p in psutil.Process().children(recursive=True) if p.pid not in before]
  made.shutdown()
  _, alive = psutil.wait_procs(started, timeout=60)
  assert not alive


@pytest.fixture(scope="module")
def context(cluster):
  made = executor.create_ray_context(cluster.address, startup_seconds=STARTUP_SECONDS)
  yield made
  made.executor.close()


@pytest.fixture
def on_ray(context):
  """Runs a function on the cluster; all other computations run in process."""

  def run(function, *args, **kwargs):
    tff.framework.set_default_context(context)
    try:
      return function(*args, **kwargs)
    finally:
      set_execution_context("inprocess")

  return run


@pytest.mark.parametrize(
  "leaf",
  [tf.constant([1.5, -2.0]), tf.constant(3), tf.constant(["a", "bc"]), tf.constant(b"\xff")],
  ids=["floats", "scalar", "texts", "bytes"],
)
def test_tensors_travel(leaf):
  back = wire.decode(wire.encode(leaf))
  assert back.dtype == leaf.dtype
  np.testing.assert_array_equal(back.numpy(), leaf.numpy())


def test_data_sets_travel_by_value_and_by_reference():
  spec = harness.client_dataset(0).element_spec
  for data, variant in [
    (harness.client_dataset(0), DataLeaf(harness.client_dataset(0), None)),
    (_by_reference(10)(1, 2).resolve(), DataLeaf(_by_reference(10)(1, 2), None)),
    (_batches_by_value(1, 2), DataLeaf(_batches_by_value(1, 2), None)),
  ]:
    back = tf.data.experimental.from_variant(wire.decode(wire.encode(variant)), spec)
    for expected, found in zip(data, back, strict=True):
      _assert_same_bits(expected, found)


def test_in_process_a_reference_stands_for_its_data():
  reference = _by_reference(10)
  expected = _run(FEDAVG, lambda i, t: reference(i, t).resolve(), 3)
  _assert_same_bits(expected, _run(FEDAVG, reference, 3))


def _wait_for_actors(context, count: int) -> None:
  """Waits until new actors have started; a run would go on without them."""
  deadline = time.monotonic() + STARTUP_SECONDS
  while len(context.executor.actors.ready) < count and time.monotonic() < deadline:
    context.executor.actors.refresh()
    time.sleep(0.2)
  assert len(context.executor.actors.ready) == count


def _processes(marks: pathlib.Path) -> set[str]:
  """Returns the processes that read clients' data."""
  return {mark.name.partition("-")[2] for mark in marks.iterdir()}


@pytest.mark.slow
def test_every_node_has_an_actor(cluster, context):
  places = context.executor.actors.ready.values()
  assert len(places) == 3
  assert len({place.partition("node ")[2][:8] for place in places}) == 3


@pytest.mark.slow
@pytest.mark.parametrize(
  ("algorithm", "data"),
  [
    (FEDAVG, _by_value),
    (FEDAVG, _by_reference(10, batches=True)),
    (SCAFFOLD, _batches_by_value),
    (SCAFFOLD, _by_reference(10)),
  ],
  ids=["by_value", "batches_by_reference", "batches_by_value", "by_reference"],
)
def test_same_bits_as_in_process(on_ray, algorithm, data):
  _assert_same_bits(_run(algorithm, data, 8), on_ray(_run, algorithm, data, 8))


@pytest.mark.slow
def test_train_model_runs_on_the_cluster(context, tmp_path):
  process = as_learning_process(FEDAVG, harness.softmax_model())
  datasets = [harness.client_dataset(i) for i in range(4)]
  clients = programs.Turns(datasets, process.next.type_signature.parameter[1])
  found, expected = (
    programs.train(chosen, process, clients, tmp_path / name, rounds=2)
    for name, chosen in [("ray", AsyncContext(context)), ("here", create_async_context())]
  )
  assert sorted(found["metrics"].released) == [1, 2]
  _assert_same_bits(expected["models"].released, found["models"].released)


@pytest.mark.slow
def test_bytes_do_not_grow_with_the_data_nor_functions_with_the_rounds(on_ray, context):
  shipped = []
  for examples in (10, 10_000):
    on_ray(_run, SCAFFOLD, _by_reference(examples), 4, rounds=2)
    shipped.append(context.last_round_bytes)
  few, many = shipped
  assert many.functions == 0  # the second round sends no functions
  assert (few.shared, few.results) == (many.shared, many.results)
  assert abs(few.clients - many.clients) < 4 * 8  # the digits of the number of examples
  on_ray(_run, SCAFFOLD, lambda i, t: _by_reference(10_000)(i, t).resolve(), 4, rounds=1)
  assert context.last_round_bytes.clients > 4 * 10_000 * 16  # by value, bytes grow with the data


@pytest.mark.slow
@pytest.mark.parametrize("algorithm", [FEDAVG, SCAFFOLD, MIME], ids=["fedavg", "scaffold", "mime"])
def test_same_bits_with_several_clients_in_a_block(on_ray, algorithm):
  data = _by_reference(10, batches=True)
  _assert_same_bits(_run(algorithm, data, 150), on_ray(_run, algorithm, data, 150))


@pytest.mark.slow
def test_the_head_receives_as_much_from_a_large_cohort_as_from_a_small_one(on_ray, context):
  received = []
  for clients in (100, 1000):
    on_ray(_run, FEDAVG, _by_reference(10, batches=True), clients, rounds=1)
    received.append(context.last_round_bytes.results)
  assert max(received) < 1.3 * min(received)


@pytest.mark.slow
def test_examples_by_value_are_sent_once(on_ray, context):
  examples = [_by_reference(1000, batches=True)(i, 0).resolve() for i in range(4)]
  shipped = []

  def run():
    for algorithm in (FEDAVG, MIME):
      _run(algorithm, lambda i, t: examples[i], 4, rounds=2)
      shipped.append(context.last_round_bytes)

  on_ray(run)
  assert all(each.examples == 0 and each.clients < 20_000 for each in shipped)
  expected = _run(MIME, lambda i, t: examples[i], 4, rounds=2)
  _assert_same_bits(expected, on_ray(_run, MIME, lambda i, t: examples[i], 4, rounds=2))


@pytest.mark.slow
def test_a_client_whose_data_cannot_be_read_is_named(on_ray):
  def data(i, t):
    return DataReference(source(LOADER, examples=10), "missing" if i == 70 else str(i), (t, i), 3)

  with pytest.raises(
    RuntimeError, match=r"client 70 of the cohort failed before.*no file for this"
  ):
    on_ray(_run, FEDAVG, data, 80)


@pytest.mark.slow
def test_an_error_names_the_client_and_the_operation(on_ray):
  def data(i, t):
    name = "broken" if i == 2 else str(i)
    return DataReference(source(LOADER, examples=10), name, (t, i), 3)

  def run():
    with client_labels(lambda i: f"client number {i}"):
      _run(FEDAVG, data, 4)

  with pytest.raises(
    tf.errors.InvalidArgumentError, match=r"(?s)client number 2 failed in.*bad label"
  ):
    on_ray(run)


@pytest.mark.slow
def test_a_lost_actor_is_replaced(context, on_ray, caplog):
  expected = _run(SCAFFOLD, _by_reference(10), 8)
  ray.kill(next(iter(context.executor.actors.ready)))
  with caplog.at_level(logging.WARNING, logger="absl"):
    _assert_same_bits(expected, on_ray(_run, SCAFFOLD, _by_reference(10), 8))
    assert "run again elsewhere; 2 actors remain" in caplog.text
    _wait_for_actors(context, 3)
    assert "A new Ray actor runs clients in process" in caplog.text
  _assert_same_bits(expected, on_ray(_run, SCAFFOLD, _by_reference(10), 8))
  assert len(context.executor.actors.ready) == 3


@pytest.mark.slow
def test_a_run_that_loses_all_actors_waits_for_new_ones(context, on_ray):
  for actor in list(context.executor.actors.ready):
    ray.kill(actor)
  _assert_same_bits(_run(FEDAVG, _by_value, 4), on_ray(_run, FEDAVG, _by_value, 4))
  _wait_for_actors(context, 3)


@pytest.mark.slow
def test_a_client_that_ends_its_actors_is_one_clear_error(context, on_ray):
  def data(i, t):
    return DataReference(source(LOADER, examples=10), "deadly" if i == 2 else str(i), (t, i), 3)

  with pytest.raises(RuntimeError, match=r"client 2 of the cohort.*found that 3 actors ended"):
    on_ray(_run, FEDAVG, data, 4)
  _wait_for_actors(context, 3)


@pytest.mark.slow
def test_a_node_killed_in_mid_round_changes_nothing(cluster, context, on_ray, tmp_path, caplog):
  data = _by_reference(10, marks=str(tmp_path), seconds=1.0)
  expected = _run(SCAFFOLD, _by_reference(10), 8, rounds=1)

  def kill_when_started():
    while not any(tmp_path.iterdir()):
      time.sleep(0.05)
    here = ray.get_runtime_context().get_node_id()
    node = next(node for node in cluster.worker_nodes if node.node_id != here)
    cluster.remove_node(node, allow_graceful=False)

  killer = threading.Thread(target=kill_when_started)
  killer.start()
  with caplog.at_level(logging.WARNING, logger="absl"):
    found = on_ray(_run, SCAFFOLD, data, 8, rounds=1)
  killer.join()
  _assert_same_bits(expected, found)
  assert len(context.executor.actors.ready) == 2
  assert "Lost the Ray actor in process" in caplog.text
  assert "run again elsewhere; 2 actors remain" in caplog.text
  ran = [mark.name.partition("-")[0] for mark in tmp_path.iterdir()]
  assert len(ran) >= len(set(ran)) == 8


@pytest.mark.slow
def test_a_node_that_joins_is_used(cluster, context, on_ray, tmp_path):
  cluster.add_node(**NODE)
  _wait_for_actors(context, 3)
  data = _by_reference(10, marks=str(tmp_path), seconds=0.2)
  expected = _run(SCAFFOLD, _by_reference(10), 8)
  _assert_same_bits(expected, on_ray(_run, SCAFFOLD, data, 8))
  assert len(_processes(tmp_path)) == 3


@pytest.mark.slow
def test_no_actor_and_no_room_is_one_clear_error(cluster, context, on_ray, monkeypatch):
  monkeypatch.setattr(pool, "_RELEASE_SECONDS", 2.0)
  lodgers = [ray.remote(num_cpus=1)(_Lodger).remote() for _ in range(3)]  # wait for a free CPU
  lost = context.executor.actors.lost + 3
  for actor in list(context.executor.actors.ready):
    ray.kill(actor)
  ray.get([lodger.answer.remote() for lodger in lodgers])
  with pytest.raises(RuntimeError, match=f"found none left and no room for a new one: {lost} were"):
    on_ray(_run, FEDAVG, _by_value, 4)


class _Lodger:
  """Takes the CPU of an actor that ended."""

  def answer(self) -> None:
    pass


@pytest.mark.slow
@pytest.mark.parametrize("ending", list(ray_endings.ENDINGS))
def test_a_cluster_of_our_own_ends_with_the_program(ending, tmp_path):
  output = pathlib.Path(tmp_path, "output")
  with output.open("w") as file:
    subprocess.run(
      [sys.executable, "-m", "tests.helpers.ray_endings", ending],
      cwd=ROOT, stdout=file, stderr=subprocess.DEVNULL, timeout=600,
    )  # fmt: skip
  started = [int(pid) for pid in output.read_text().splitlines()[0].split()]
  assert len(started) >= 4
  deadline = time.monotonic() + 60
  while (alive := list(filter(_is_alive, started))) and time.monotonic() < deadline:
    time.sleep(0.2)
  assert not alive


def _is_alive(pid: int) -> bool:
  try:
    return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
  except psutil.NoSuchProcess:
    return False
