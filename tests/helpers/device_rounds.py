"""Runs rounds on 1, 2, 4 and 8 logical CPU devices; prints the clients of each device and a digest.

Run it as a program, because a process can set the number of logical devices only once.
"""

import collections
import hashlib
import json

import numpy as np
import tensorflow_federated as tff
import tree

from tests.helpers import learning_builders
from tff_momentum import runtime
from tff_momentum.runtime import functions


def clients_by_device(run) -> dict[str, int]:
  """Counts clients by the device on which TensorFlow left the results of their function."""
  counts: collections.Counter[str] = collections.Counter()
  original = functions.FlatFunction.call_used

  def observe(self, inputs, device=None):
    outputs = original(self, inputs, device)
    if self.label.startswith("client_"):
      (placed,) = {tensor.backing_device for tensor in outputs}
      counts[placed[-5:]] += 1
    return outputs

  functions.FlatFunction.call_used = observe
  run()
  functions.FlatFunction.call_used = original
  return dict(sorted(counts.items()))


def main() -> None:
  names = [f"/device:CPU:{i}" for i in range(8)]
  runtime.set_execution_context(devices="cpu:8")
  case = learning_builders.CASES["weighted_fed_avg"]
  process = case.process()
  for count in (8, 4, 2, 1):
    for in_flight in (count, 2 * count):
      context = runtime.create_inprocess_context(names[:count], in_flight)
      with tff.framework.get_context_stack().install(context):
        state, output = learning_builders.run_rounds(process, case.data, process.initialize())
        data = case.data(0) + case.data(1)[:1]
        counts = clients_by_device(lambda: process.next(state, data))  # noqa: B023
        many = process.next(state, data * 8)  # blocks of one and of two clients
      leaves = [np.asarray(leaf).tobytes() for leaf in tree.flatten((output, many))]
      digest = hashlib.sha256(b"".join(leaves)).hexdigest()
      print(json.dumps({"devices": count, "counts": counts, "digest": digest}), flush=True)


if __name__ == "__main__":
  main()
