"""A stateless algorithm works with TFF's own loops, programs and aggregators."""

import numpy as np
import pytest
import tensorflow_federated as tff

from tests.helpers import harness
from tests.helpers.programs import Memory, Turns, train
from tff_momentum import algorithms, runtime
from tff_momentum.processes.learning_process import as_learning_process


@pytest.fixture(scope="module")
def process():
  algorithm = algorithms.builder("fedavgm")(client_learning_rate=0.1, beta=0.5)
  return as_learning_process(algorithm, harness.softmax_model())


def test_equals_the_iterative_process(process):
  state = process.initialize()
  for cohort in harness.COHORTS:
    output = process.next(state, [harness.client_dataset(i) for i in cohort])
    state = output.state
  run = harness.run_product(algorithms.builder("fedavgm")(client_learning_rate=0.1, beta=0.5))
  np.testing.assert_array_equal(
    harness.flatten(process.get_model_weights(state).trainable), run.x[-1]
  )
  assert output.metrics["client_work"]["train"]["num_examples"] == sum(
    harness.SIZES[i] for i in harness.COHORTS[-1]
  )


def test_set_model_weights_resets_the_statistics(process):
  state = process.next(process.initialize(), [harness.client_dataset(0)]).state
  fresh = process.set_model_weights(state, process.get_model_weights(process.initialize()))
  assert not np.any(harness.flatten(fresh.finalizer.d))


def test_refuses_stateful_algorithms():
  with pytest.raises(ValueError, match="keep no state"):
    as_learning_process(
      algorithms.builder("scaffold")(client_learning_rate=0.1, num_clients=5),
      harness.softmax_model(),
    )


def test_trains_under_tff_simulation(process):
  metrics = Memory()
  tff.simulation.run_training_process(
    training_process=process,
    training_selection_fn=lambda t: [harness.client_dataset(i) for i in (0, 1, 3)],
    total_rounds=5,
    metrics_managers=[metrics],
  )
  losses = [metrics.released[t]["client_work"]["train"]["loss"] for t in range(1, 6)]
  assert losses[-1] < losses[0]


AGGREGATORS = {
  "clipping": lambda: tff.aggregators.clipping_factory(0.05, tff.aggregators.MeanFactory()),
  "robust": tff.learning.robust_aggregator,
  "differential privacy": lambda: tff.learning.dp_aggregator(0.1, 3),
  "compression": tff.learning.compression_aggregator,
}


@pytest.mark.parametrize("name", AGGREGATORS)
def test_any_aggregator_takes_the_place_of_the_mean(name):
  algorithm = algorithms.builder("fedavg")(client_learning_rate=0.1)
  run = harness.run_product(algorithm, [[0, 1, 3]] * 2, aggregator=AGGREGATORS[name]())
  assert np.all(np.isfinite(run.x[-1]))
  if name == "clipping":
    assert np.linalg.norm(run.x[0] - harness.flatten(harness.initial_weights())) <= 0.0501


DATA_TYPE = tff.types.FederatedType(
  tff.types.SequenceType(tff.types.tensorflow_to_type(harness.softmax_model().batch_spec)),
  tff.CLIENTS,
)


def test_trains_under_tff_program(process, tmp_path):
  source = Turns([harness.client_dataset(i) for i in range(4)], DATA_TYPE)
  released = train(runtime.create_async_context(), process, source, tmp_path, rounds=3)
  assert "training_checkpoint_round_3" in released["models"].released
  assert sorted(released["metrics"].released) == [1, 2, 3]
