"""`tff.program` and `tff.learning.programs` run in an asynchronous context of ours, as on TFF's worker."""

import asyncio
import collections
import csv

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.helpers import learning_builders, programs
from tests.runtime.conftest import assert_same
from tff_momentum import runtime

NUMBERS = tff.FederatedType(tff.SequenceType(np.float32), tff.CLIENTS)
STATE = tff.FederatedType(collections.OrderedDict(total=np.float32, rounds=np.int32), tff.SERVER)


@pytest.fixture(scope="module")
def context():
  return runtime.create_async_context(devices="cpu")


@tff.tensorflow.computation
def begin():
  return collections.OrderedDict(total=0.0, rounds=0)


@tff.federated_computation
def initialize():
  return tff.federated_eval(begin, tff.SERVER)


@tff.tensorflow.computation(tff.SequenceType(np.float32))
def add_up(numbers):
  return numbers.reduce(0.0, lambda total, number: total + number)


@tff.tensorflow.computation(STATE.member, np.float32)
def advance(state, total):
  return collections.OrderedDict(total=state["total"] + total, rounds=state["rounds"] + 1)


@tff.federated_computation(STATE, NUMBERS)
def next_round(state, numbers):
  total = tff.federated_sum(tff.federated_map(add_up, numbers))
  return tff.federated_map(advance, (state, total)), total


def clients():
  datasets = [tf.data.Dataset.from_tensor_slices(np.arange(n, dtype=np.float32)) for n in (3, 1, 4)]
  return programs.Turns(datasets, NUMBERS)


async def count(folder, rounds):
  """A program with releases and program state: it resumes where the last one stopped."""
  memory = programs.Memory()
  sheet = tff.program.CSVFileReleaseManager(folder / "metrics.csv", key_fieldname="round")
  metrics = tff.program.GroupingReleaseManager([memory, sheet])
  states = tff.program.FileProgramStateManager(folder / "states")
  iterator = clients().iterator()
  start = await tff.program.materialize_value(initialize())
  found, version = await states.load_latest((start, iterator))
  state, iterator = found if found is not None else (start, iterator)
  for number in range(version + 1 if found is not None else 1, rounds + 1):
    state, total = next_round(state, iterator.select(2))
    await metrics.release({"total": total}, key=number)
    await states.save((state, iterator), version=number)
  return await tff.program.materialize_value(state), memory.released


def test_a_program_releases_and_resumes(context, worker, tmp_path):
  results = {}
  for name, chosen in (("ours", context), ("worker", runtime.AsyncContext(worker))):
    folder = tmp_path / name
    _, first = programs.run(chosen, lambda: count(folder, 2))  # noqa: B023
    state, second = programs.run(chosen, lambda: count(folder, 5))  # noqa: B023
    assert (sorted(first), sorted(second)) == ([1, 2], [3, 4, 5])
    with open(folder / "metrics.csv") as file:
      rows = list(csv.DictReader(file))
    assert [row["round"] for row in rows] == ["1", "2", "3", "4", "5"]
    results[name] = (state, first | second, rows)
  assert_same(results["worker"], results["ours"])
  assert results["ours"][0]["total"] == 3 + 0 + 6 + 3 + 0 + 6 + 3 + 0 + 6 + 3


def test_train_model_evaluates_while_it_trains(context, worker, tmp_path):
  process = learning_builders.CASES["weighted_fed_avg"].process()
  evaluation = tff.learning.algorithms.build_fed_eval(learning_builders.model_fn)
  federated_type = process.next.type_signature.parameter[1]
  source = programs.Turns(learning_builders.client_data()[1:5], federated_type)
  released = []
  for name, chosen in (("worker", runtime.AsyncContext(worker)), ("ours", context)):
    folder = tmp_path / name
    programs.train(chosen, process, source, folder, 2, evaluation)
    released.append(programs.train(chosen, process, source, folder, 4, evaluation))
  expected, found = released
  assert sorted(found["metrics"].released) == [3, 4]
  assert sorted(found["evaluations"].released) == [4]
  for name, memory in expected.items():
    assert_same(
      _without_time(memory.released), _without_time(found[name].released), rtol=1e-5, atol=1e-6
    )


def _without_time(released):
  return {
    key: {name: part for name, part in value.items() if "time" not in str(name)}
    if isinstance(value, dict)
    else value
    for key, value in released.items()
  }


def test_is_what_tff_checks_for(context):
  assert isinstance(context, tff.framework.AsyncExecutionContext)
  with pytest.raises(AttributeError, match="do not run in TFF's executors"):
    _ = context.executor_factory


def test_calls_return_coroutines(context):
  async def program():
    double = tff.tensorflow.computation(lambda x: 2 * x, np.int32)
    return await double(await double(3))

  with tff.framework.get_context_stack().install(context):
    assert programs.run_coroutine(program) == 12


def test_many_computations_at_the_same_time(context):
  """Some are traced while others run, and many calls of one computation trace it once."""

  def new_computation(k):
    @tff.tensorflow.computation(tff.SequenceType(np.float32))
    def local(numbers):
      return numbers.reduce(tf.constant(k, tf.float32), lambda total, number: total + number)

    @tff.federated_computation(NUMBERS)
    def everywhere(numbers):
      return tff.federated_sum(tff.federated_map(local, numbers))

    return everywhere

  data = clients().iterator().select(3)
  computations = [new_computation(k) for k in range(8)]

  async def program():
    return await asyncio.gather(
      *(computation(data) for _ in range(6) for computation in computations)
    )

  with tff.framework.get_context_stack().install(context):
    found = programs.run_coroutine(program)
  assert found == [3 * k + 3 + 0 + 6 for _ in range(6) for k in range(8)]


def test_errors_name_the_client(context):
  @tff.tensorflow.computation(np.int32)
  def refuse_seven(x):
    with tf.control_dependencies([tf.debugging.Assert(tf.not_equal(x, 7), ["seven is bad"])]):
      return tf.identity(x)

  @tff.federated_computation(tff.FederatedType(np.int32, tff.CLIENTS))
  def total(values):
    return tff.federated_sum(tff.federated_map(refuse_seven, values))

  async def program():
    with runtime.client_labels(lambda i: f"client {'abc'[i]}"):
      return await tff.program.materialize_value(total([1, 7, 2]))

  with pytest.raises(tf.errors.InvalidArgumentError, match=r"(?s)client b failed.*seven is bad"):
    programs.run(context, program)
