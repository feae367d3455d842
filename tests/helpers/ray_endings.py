"""Starts a Ray cluster on this machine, prints its processes, and ends in the way that the argument names."""

import os
import signal
import sys

import numpy as np
import psutil
import tensorflow_federated as tff

from tff_momentum.runtime import set_execution_context


def _raise():
  raise ValueError("an exception in the program")


ENDINGS = {
  "exit": lambda: sys.exit(0),
  "exception": _raise,
  "interrupt": lambda: os.kill(os.getpid(), signal.SIGINT),
  "terminate": lambda: os.kill(os.getpid(), signal.SIGTERM),
  "kill": lambda: os.kill(os.getpid(), signal.SIGKILL),
}


def main() -> None:
  set_execution_context("ray", num_actors=1, worker_startup_seconds=500)

  @tff.federated_computation(tff.FederatedType(tff.TensorType(np.int32), tff.CLIENTS))
  def total(values):
    return tff.federated_sum(values)

  assert total([1, 2, 3]) == 6
  print(*(child.pid for child in psutil.Process().children(recursive=True)), flush=True)
  ENDINGS[sys.argv[1]]()


if __name__ == "__main__":
  main()
