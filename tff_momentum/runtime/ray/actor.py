"""The part of the Ray runtime that runs on the cluster's nodes: one actor for each device."""

import dataclasses
import os
import pickle
import socket
from typing import Any

import ray
import tensorflow as tf
from tensorflow.core.framework import function_pb2
from tensorflow.python.eager import context as eager_context

from tff_momentum.runtime import compat, devices, functions
from tff_momentum.runtime.ray import wire


@dataclasses.dataclass(frozen=True)
class Failure:
  """An error of a client's TensorFlow code; TensorFlow's own exceptions do not travel well."""

  code: int
  message: str

  def error(self) -> tf.errors.OpError:
    """Returns the exception that the actor caught."""
    kind = tf.compat.v1.errors.exception_type_from_error_code(self.code)
    return kind(None, None, self.message)


class ClientActor:
  """Runs stage functions for one client after the other on one device.

  Functions and the shared values of a pass are fetched when they are first needed, and kept: functions
  for good, shared values until those of another pass come.
  """

  def __init__(self) -> None:
    compat.stop_eager_tensor_leak()
    devices.prefer_one_thread()
    self._device = devices.find_devices("auto")[0]
    self._functions: dict[str, tuple[str, int]] = {}
    self._shared_id = ""
    self._shared: list[tf.Tensor] = []

  def describe(self) -> str:
    """Returns where this actor runs, for logs."""
    node = ray.get_runtime_context().get_node_id()[:8]
    return f"process {os.getpid()} on {socket.gethostname()} (node {node}, {self._device[-5:]})"

  def run(
    self, key: str, function: list[ray.ObjectRef], shared: list[ray.ObjectRef], own: list[Any]
  ) -> list[Any] | Failure:
    """Runs a function for one client.

    Args:
      key: names the function by its content.
      function: the reference to it, in a list so that Ray leaves fetching it to us.
      shared: likewise the reference to the shared values.
      own: the client's own values, encoded.
    """
    name, num_outputs = self._function(key, function[0])
    try:
      inputs = self._shared_values(shared[0]) + [wire.decode(item) for item in own]
      outputs = functions.execute(name, inputs, num_outputs, self._device)
      return [wire.encode(tensor) for tensor in outputs]
    except tf.errors.OpError as error:
      return Failure(error.error_code, error.message)

  def _function(self, key: str, reference: ray.ObjectRef) -> tuple[str, int]:
    if key not in self._functions:
      name, num_outputs, definitions = pickle.loads(ray.get(reference))
      context = eager_context.context()
      context.ensure_initialized()
      for serialized in definitions:
        definition = function_pb2.FunctionDef.FromString(serialized)
        if not context.has_function(definition.signature.name):
          context.add_function_def(definition)
      self._functions[key] = (name, num_outputs)
    return self._functions[key]

  def _shared_values(self, reference: ray.ObjectRef) -> list[tf.Tensor]:
    if self._shared_id != reference.hex():
      with tf.device(self._device):
        self._shared = [tf.identity(wire.decode(item)) for item in ray.get(reference)]
      self._shared_id = reference.hex()
    return self._shared
