"""Runs clients that wait instead of computing, on eight logical devices; prints the times as JSON.

A client waits for a time in proportion to the number of its examples, which is drawn from a log-normal
distribution. No schedule is faster than the longest client, nor than the mean of the devices' work; the
larger of the two is the best possible time. Run it as a program, because a process can set the number of
logical devices only once.
"""

import json
import time

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum import runtime

DEVICES, SECONDS_PER_EXAMPLE = 8, 0.0015
_graphs = []  # a Python function in a graph lives as long as the graph


def computation(element_spec) -> tff.Computation:
  """The sum of what the clients waited for."""

  def wait(count):
    time.sleep(SECONDS_PER_EXAMPLE * int(count))
    return np.int64(count)

  @tff.tensorflow.computation(tff.SequenceType(tff.types.tensorflow_to_type(element_spec)))
  def client(data):
    count = data.reduce(np.int64(0), lambda n, batch: n + tf.shape(batch, tf.int64)[0])
    _graphs.append(count.graph)
    waited = tf.numpy_function(wait, [count], tf.int64)
    waited.set_shape([])
    return waited

  @tff.federated_computation(tff.FederatedType(client.type_signature.parameter, tff.CLIENTS))
  def round_of(data):
    return tff.federated_sum(tff.federated_map(client, data))

  return round_of


def main() -> None:
  runtime.configure_threads(
    inter_op=2 * DEVICES
  )  # a waiting client takes one of TensorFlow's threads
  runtime.set_execution_context(devices=f"cpu:{DEVICES}")
  for clients in (40, 300):
    draws = np.random.default_rng(clients).lognormal(np.log(6000 / clients), 1.0, clients)
    counts = np.maximum(draws, 1).astype(int)
    data = [runtime.ClientBatches(np.zeros([n]), batch_size=10**6) for n in counts]
    run = computation(data[0].element_spec)
    run([runtime.ClientBatches(np.zeros([1]), batch_size=10**6)] * clients)  # traces
    begin = time.perf_counter()
    total = run(data)
    found = time.perf_counter() - begin
    best = SECONDS_PER_EXAMPLE * max(counts.max(), counts.sum() / DEVICES)
    result = {
      "clients": clients,
      "best": best,
      "found": found,
      "right": bool(total == counts.sum()),
    }
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
  main()
