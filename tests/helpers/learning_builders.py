"""Small instances of every `tff.learning` builder, shared by the runtime tests."""

import collections
from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

NUM_CLIENTS = 11  # one full block of the fold, and some more
SGD = tff.learning.optimizers.build_sgdm(0.1)
MOMENTUM = tff.learning.optimizers.build_sgdm(1.0, 0.9)
SPEC = collections.OrderedDict(
  x=tf.TensorSpec([None, 4], tf.float32), y=tf.TensorSpec([None, 1], tf.float32)
)


class Case(NamedTuple):
  """A process, and the clients' data of each round."""

  process: Callable[[], tff.templates.IterativeProcess]
  data: Callable[[int], list]


def client_data(round_number: int = 0) -> list[tf.data.Dataset]:
  """Returns clients of different sizes, one of them empty, with smaller last batches."""
  rng = np.random.default_rng(round_number)
  sizes = [0, *rng.integers(1, 23, NUM_CLIENTS - 1)]
  clients = []
  for size in sizes:
    x = rng.normal(size=(size, 4)).astype(np.float32)
    y = (x @ np.arange(4, dtype=np.float32) + rng.normal(size=size)).astype(np.float32)
    examples = collections.OrderedDict(x=x, y=y[:, np.newaxis])
    clients.append(tf.data.Dataset.from_tensor_slices(examples).batch(5))
  return clients


def keras_model() -> tf.keras.Model:
  return tf.keras.Sequential(
    [
      tf.keras.layers.Input((4,)),
      tf.keras.layers.Dense(3, activation="tanh", kernel_initializer="ones"),
      tf.keras.layers.Dense(1, kernel_initializer="ones"),
    ]
  )


def model_fn() -> tff.learning.models.VariableModel:
  return tff.learning.models.from_keras_model(
    keras_model(),
    loss=tf.keras.losses.MeanSquaredError(),
    input_spec=SPEC,
    metrics=[tf.keras.metrics.MeanAbsoluteError()],
  )


def functional_model() -> tff.learning.models.FunctionalModel:
  return tff.learning.models.functional_model_from_keras(
    keras_model, tf.keras.losses.MeanSquaredError(), SPEC
  )


def _recon_model() -> tff.learning.models.ReconstructionModel:
  body = tf.keras.layers.Dense(3, kernel_initializer="ones")
  head = tf.keras.layers.Dense(1, kernel_initializer="ones")
  inputs = tf.keras.layers.Input((4,))
  model = tf.keras.Model(inputs, head(body(inputs)))
  return tff.learning.models.ReconstructionModel.from_keras_model_and_layers(
    model, global_layers=[body], local_layers=[head], input_spec=SPEC
  )


def _points(round_number: int) -> list[tf.data.Dataset]:
  return [dataset.map(lambda batch: batch["x"]).unbatch() for dataset in client_data(round_number)]


def _fed_avg(aggregator=lambda: None, **arguments):
  return lambda: tff.learning.algorithms.build_weighted_fed_avg(
    model_fn, SGD, MOMENTUM, model_aggregator=aggregator(), **arguments
  )


def _unweighted(aggregator=lambda: None):
  return lambda: tff.learning.algorithms.build_unweighted_fed_avg(
    model_fn, SGD, MOMENTUM, model_aggregator=aggregator()
  )


_algorithms = tff.learning.algorithms
_recon_arguments = dict(
  loss_fn=tf.keras.losses.MeanSquaredError,
  reconstruction_optimizer_fn=tff.learning.optimizers.build_sgdm(0.01),
)
_recon_training = dict(client_optimizer_fn=tff.learning.optimizers.build_sgdm(0.01))

CASES: dict[str, Case] = {
  name: Case(process, _points if name == "fed_kmeans" else client_data)
  for name, process in {
    "weighted_fed_avg": _fed_avg(),
    "unweighted_fed_avg": _unweighted(),
    "fed_avg_functional": lambda: _algorithms.build_weighted_fed_avg(
      functional_model(), SGD, MOMENTUM
    ),
    "fed_avg_adam": lambda: _algorithms.build_weighted_fed_avg(
      model_fn, tff.learning.optimizers.build_adam(0.01), MOMENTUM
    ),
    "fed_avg_iterator_loop": _fed_avg(
      loop_implementation=tff.learning.LoopImplementation.DATASET_ITERATOR
    ),
    "fed_avg_schedule": lambda: _algorithms.build_weighted_fed_avg_with_optimizer_schedule(
      model_fn, lambda n: 0.1 / tf.cast(n + 1, tf.float32), tff.learning.optimizers.build_sgdm
    ),
    "weighted_fed_prox": lambda: _algorithms.build_weighted_fed_prox(model_fn, 0.3, SGD, MOMENTUM),
    "unweighted_fed_prox": lambda: _algorithms.build_unweighted_fed_prox(model_fn, 0.3, SGD),
    "fed_sgd": lambda: _algorithms.build_fed_sgd(model_fn, SGD),
    "weighted_mime_lite": lambda: _algorithms.build_weighted_mime_lite(
      model_fn, tff.learning.optimizers.build_sgdm(0.1, 0.9)
    ),
    "unweighted_mime_lite": lambda: _algorithms.build_unweighted_mime_lite(
      model_fn, tff.learning.optimizers.build_adam(0.01)
    ),
    "mime_lite_schedule": lambda: _algorithms.build_mime_lite_with_optimizer_schedule(
      model_fn, lambda n: 0.1, tff.learning.optimizers.build_sgdm(1.0, 0.9)
    ),
    "fed_kmeans": lambda: _algorithms.build_fed_kmeans(3, (4,), random_seed=(1, 2)),
    "fed_eval": lambda: _algorithms.build_fed_eval(model_fn),
    "fed_recon": lambda: _algorithms.build_fed_recon(
      _recon_model, **_recon_arguments, **_recon_training
    ),
    "fed_recon_eval": lambda: _algorithms.build_fed_recon_eval(_recon_model, **_recon_arguments),
    "robust": _fed_avg(tff.learning.robust_aggregator),
    "compressed": _fed_avg(tff.learning.compression_aggregator),
    "secure": _fed_avg(tff.learning.secure_aggregator),
    "differentially_private": _unweighted(
      lambda: tff.aggregators.DifferentiallyPrivateFactory.gaussian_fixed(0.0, NUM_CLIENTS, 0.5)
    ),
    "dft": _unweighted(
      lambda: tff.aggregators.UnweightedMeanFactory(
        value_sum_factory=tff.aggregators.DiscreteFourierTransformFactory()
      )
    ),
  }.items()
}


def run_rounds(process: tff.templates.IterativeProcess, data: Callable[[int], list], state):
  """Returns the state and the last output after three rounds from `state` in the current context."""
  output = None
  for round_number in range(3):
    output = process.next(state, data(round_number))
    state = output.state
  return state, output
