"""What researchers compute besides training: `tff.analytics`, selections, personalisation."""

import collections

import numpy as np
import pytest
import tensorflow as tf
import tensorflow_federated as tff

from tests.helpers import learning_builders
from tests.runtime.conftest import assert_same

OrderedDict = collections.OrderedDict
slices = tf.data.Dataset.from_tensor_slices
FLOATS, STRINGS = tff.SequenceType(np.float32), tff.SequenceType(np.str_)


def words(*found):
  return slices(tf.constant(found, tf.string))


WORDS = [words("a", "b", "a"), words("b"), words(), words("c", "d", "ab", "a")]


def test_temperature_sensors(agree):
  """The first tutorial of TFF: the mean over sensors of the fraction of readings over a threshold."""

  @tff.tensorflow.computation(FLOATS, np.float32)
  def fraction_over(readings, threshold):
    over = readings.reduce(0.0, lambda n, t: n + tf.cast(t > threshold, tf.float32))
    return over / readings.reduce(0.0, lambda n, _: n + 1.0)

  @tff.federated_computation(
    tff.FederatedType(FLOATS, tff.CLIENTS), tff.FederatedType(np.float32, tff.SERVER)
  )
  def mean_fraction(readings, threshold):
    arguments = (readings, tff.federated_broadcast(threshold))
    return tff.federated_mean(tff.federated_map(fraction_over, arguments))

  sensors = [slices([68.0, 70.0]), slices([71.0, 60.0]), [66.0, 78.0]]
  assert agree(mean_fraction, sensors, 67.0, rtol=1e-6) == pytest.approx(2 / 3)


@pytest.mark.parametrize(
  "options",
  [{"multi_contribution": False, "k_anonymity": 2}, {"secure_sum_bitwidth": 16}],
  ids=["k_anonymous", "secure"],
)
def test_heavy_hitters(in_process, worker, options):
  """TFF returns the words in random order."""
  computation = tff.analytics.heavy_hitters.iblt.build_iblt_computation(
    capacity=20, string_max_bytes=5, max_words_per_user=3, seed=1, batch_size=2, **options
  )
  results = []
  for context in (worker, in_process):
    with tff.framework.get_context_stack().install(context):
      found = computation([data.batch(2) for data in WORDS])
    counts = zip(found.heavy_hitters_unique_counts, found.heavy_hitters_counts, strict=True)
    results.append((found.clients, dict(zip(found.heavy_hitters, counts, strict=True))))
  assert results[0] == results[1]
  assert b"b" in results[1][1]


@pytest.mark.parametrize("use_secagg", [False, True])
def test_count_distinct(agree, use_secagg):
  computation = tff.analytics.count_distinct.create_federated_hyperloglog_computation(
    use_secagg=use_secagg
  )
  agree(computation, WORDS)


@pytest.mark.parametrize(
  "options",
  [{"enable_secure_sum": False}, {"clip_mechanism": "distinct"}],
  ids=["plain", "distinct"],
)
def test_hierarchical_histogram(in_process, worker, options):
  process = tff.analytics.build_hierarchical_histogram_process(
    lower_bound=0.0, upper_bound=8.0, num_bins=4, **options
  )
  data = [slices([1.0, 2.0, 3.0]), slices([7.0]), slices([0.0, 8.0, 9.0]), slices(tf.zeros([0]))]
  results = []
  for context in (worker, in_process):
    with tff.framework.get_context_stack().install(context):
      state, _ = process.next(process.initialize(), data)
    results.append(tf.nest.flatten(state.aggregated_hierarchical_histogram, expand_composites=True))
  assert_same(*results, rtol=1e-6)
  assert np.max(np.asarray(results[1][0])) > 0


@pytest.mark.parametrize(
  "select", [tff.federated_select, tff.federated_secure_select], ids=["plain", "secure"]
)
def test_selections_with_named_elements(agree, select):
  rows = tff.TensorType(np.float32, [3, 2])

  @tff.federated_computation(
    tff.FederatedType(tff.TensorType(np.int32, [2]), tff.CLIENTS),
    tff.FederatedType(rows, tff.SERVER),
  )
  def total(keys, server_rows):
    pick = tff.tensorflow.computation(
      lambda server, key: OrderedDict(key=key, row=tf.gather(server, key)), (rows, np.int32)
    )
    slices_of = select(keys, tff.federated_value(3, tff.SERVER), server_rows, pick)
    add_up = tff.tensorflow.computation(
      lambda data: data.reduce(
        tf.zeros([2]), lambda t, e: 2.0 * t + e["row"] + tf.cast(e["key"], tf.float32)
      ),
      slices_of.type_signature.member,
    )
    each = tff.federated_map(add_up, slices_of)
    return each, tff.federated_sum(each)

  keys = [np.array([0, 2], np.int32), np.array([1, 1], np.int32)]
  agree(total, keys, np.arange(6, dtype=np.float32).reshape(3, 2))


def test_personalisation(agree):
  """Data sets inside a struct: clients have one to train on and one to evaluate on."""

  def strategy():
    optimizer = tf.keras.optimizers.SGD(0.01)

    @tf.function
    def train(model, train_data, test_data, context=None):
      def step(count, batch):
        with tf.GradientTape() as tape:
          output = model.forward_pass(batch)
        gradients = tape.gradient(output.loss, model.trainable_variables)
        optimizer.apply_gradients(zip(gradients, model.trainable_variables, strict=True))
        return count + 1

      steps = train_data.batch(2).reduce(0, step)
      loss = test_data.batch(4).reduce(
        0.0, lambda total, batch: total + model.forward_pass(batch, training=False).loss
      )
      return OrderedDict(steps=steps, loss=loss)

    return train

  evaluation = tff.learning.algorithms.build_personalization_eval_computation(
    learning_builders.model_fn,
    OrderedDict(sgd=strategy),
    baseline_evaluate_fn=tf.function(
      lambda model, data: OrderedDict(
        loss=data.batch(4).reduce(
          0.0, lambda total, batch: total + model.forward_pass(batch, training=False).loss
        )
      )
    ),
    max_num_clients=3,
  )
  weights = tff.learning.models.ModelWeights.from_model(learning_builders.model_fn())
  weights = tf.nest.map_structure(
    lambda variable: variable.numpy(), (weights.trainable, weights.non_trainable)
  )
  data = [dataset.unbatch() for dataset in learning_builders.client_data()[1:4]]
  clients = [OrderedDict(train_data=one, test_data=one.take(5)) for one in data]
  found = agree(
    evaluation, tff.learning.models.ModelWeights(*weights), clients, rtol=1e-5, atol=1e-6
  )
  assert sorted(found) == ["baseline_metrics", "sgd"]


def test_cohorts_without_clients_and_clients_without_data(agree):
  @tff.tensorflow.computation(STRINGS)
  def describe(data):
    joined = data.reduce("", lambda text, word: text + word)
    return OrderedDict(text=joined, count=data.reduce(0, lambda n, _: n + 1))

  @tff.federated_computation(tff.FederatedType(STRINGS, tff.CLIENTS))
  def count(data):
    return tff.federated_sum(tff.federated_map(describe, data)["count"])

  assert agree(count, [words(), words()]) == 0
  assert agree(count, []) == 0
