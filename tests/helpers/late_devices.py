"""Creates contexts before the program configures its devices; prints what each context runs on, as JSON.

Run it as a program, because a process can set the number of logical devices only once.
"""

import json

import tensorflow as tf
import tensorflow_federated as tff

from tff_momentum import runtime


def mistake(devices, **options) -> str:
  """Returns the error of a context that cannot be."""
  try:
    runtime.create_inprocess_context(devices, **options)
  except (RuntimeError, ValueError) as error:
    return f"{type(error).__name__}: {error}"
  return ""


def main() -> None:
  runtime.configure_threads(intra_op=3)
  context = runtime.create_inprocess_context("cpu")
  runtime.set_execution_context("inprocess")
  mistakes = [
    mistake("gpu"),
    mistake(["/device:CPU:3"]),
    mistake("tpu"),
    mistake("cpu", max_clients_in_flight=0),
  ]
  cpu = tf.config.list_physical_devices("CPU")[0]
  tf.config.set_logical_device_configuration(cpu, [tf.config.LogicalDeviceConfiguration()] * 4)
  with tff.framework.get_context_stack().install(context):
    answer = int(tff.tensorflow.computation(lambda: 6 * 7)())
  found = {
    "answer": answer,
    "devices": [name[-5:] for name in context._executor.devices],
    "threads": tf.config.threading.get_intra_op_parallelism_threads(),
    "mistakes": mistakes,
    "too late": mistake("cpu:5"),
  }
  print(json.dumps(found))


if __name__ == "__main__":
  main()
