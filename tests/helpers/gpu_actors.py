"""Runs a round on Ray actors that share a GPU, for which CPUs take the place; prints what they did.

Run it as a program, because a process can be connected to one Ray cluster only. Ray believes that the node
has a GPU, so its actors get shares of it.
"""

import json
import logging

import numpy as np
import ray
import tensorflow as tf
import tensorflow_federated as tff
from absl import logging as absl_logging
from tensorflow.core.framework import function_pb2

import tff_momentum as tfm
from tff_momentum import algorithms
from tff_momentum.runtime import context as context_lib
from tff_momentum.runtime import create_inprocess_context
from tff_momentum.runtime.ray import executor
from tff_momentum.runtime.rewrite.xla_calls import XLA_ATTRIBUTE


def max_pool_process() -> tfm.FederatedProcess:
  layers = tf.keras.layers
  model = tfm.from_keras(
    lambda: tf.keras.Sequential(
      [
        layers.Conv2D(2, 3, input_shape=(8, 8, 1)),
        layers.MaxPool2D(),
        layers.Flatten(),
        layers.Dense(1),
      ]
    ),
    loss=tf.keras.losses.MeanSquaredError(),
    batch_spec=(tf.TensorSpec([None, 8, 8, 1]), tf.TensorSpec([None, 1])),
  )
  return tfm.build_process(algorithms.fedavg(client_learning_rate=0.1), model)


def calls_xla(process, context) -> bool:
  """Whether XLA compiles some part of the clients' functions that a context traced."""
  for options, levels in context_lib.program_of(process.next)._levels.items():
    if options.device != context._options.device:
      continue
    for level in levels:
      if level.clients:
        _, _, definitions = level.clients.function(False).function.definitions()
        for each in map(function_pb2.FunctionDef.FromString, definitions):
          if XLA_ATTRIBUTE in each.attr or any(XLA_ATTRIBUTE in n.attr for n in each.node_def):
            return True
  return False


def main() -> None:
  warnings: list[str] = []
  handler = logging.Handler(logging.WARNING)
  handler.emit = lambda record: warnings.append(record.getMessage())  # type: ignore[method-assign]
  absl_logging.get_absl_logger().addHandler(handler)
  local = create_inprocess_context("cpu", as_gpu=True)
  process = max_pool_process()
  draw = np.random.default_rng(0)
  data = [
    tfm.ClientBatches(
      (draw.standard_normal((6, 8, 8, 1)).astype(np.float32), np.ones([6, 1], np.float32)),
      batch_size=2,
    )
    for _ in range(4)
  ]
  with tff.framework.get_context_stack().install(local):
    state = process.initialize()
    expected = process.weights(process.next(state, data).state)
  ray.init(
    address="local",
    num_cpus=2,
    num_gpus=1,
    include_dashboard=False,
    logging_level=logging.ERROR,
    log_to_driver=False,
    _node_ip_address="127.0.0.1",
  )
  for as_gpu in (True, False):
    warnings.clear()
    context = executor.create_ray_context(gpus_per_actor=0.5, as_gpu=as_gpu)
    with tff.framework.get_context_stack().install(context):
      found = process.weights(process.next(state, data).state)
    same = all(np.array_equal(f, e) for f, e in zip(found, expected, strict=True))
    close = all(np.allclose(f, e, 1e-5, 1e-6) for f, e in zip(found, expected, strict=True))
    actors = context.executor.actors
    said = {
      "as_gpu": as_gpu,
      "kind": actors.device_kind,
      "actors": len(actors.ready),
      "calls_xla": calls_xla(process, context),
      "same": same,
      "close": close,
      "warnings": [text for text in warnings if "GPU" in text],
    }
    print(json.dumps(said), flush=True)
    actors.close()
  ray.shutdown()


if __name__ == "__main__":
  main()
