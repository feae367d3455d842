"""The part of the Ray runtime that runs on the cluster's nodes: one actor per device."""

import dataclasses
import os
import pickle
import socket
import sys
from collections.abc import Sequence
from typing import Any

import ray
import tensorflow as tf
from tensorflow.core.framework import function_pb2
from tensorflow.python.eager import context as eager_context

from tff_momentum.runtime import chunks, compat, devices, errors, functions
from tff_momentum.runtime.ray import wire


@dataclasses.dataclass(frozen=True)
class Failure:
  """An error of a client's TensorFlow code; TensorFlow's own exceptions cannot be pickled faithfully.

  Attributes:
    code: TensorFlow's code of the error.
    message: The message.
    client: The client's place in its block; None if it is unknown.
  """

  code: int
  message: str
  client: int | None

  def error(self) -> tf.errors.OpError:
    """Returns the exception that the actor caught."""
    kind = tf.compat.v1.errors.exception_type_from_error_code(self.code)
    return kind(None, None, self.message)


def _search_python_path_first() -> None:
  """Ray searches the driver's working directory first, where a file could hide a module of this project."""
  first = list(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
  sys.path[:] = [*first, *(path for path in sys.path if path not in first)]


class ClientActor:
  """Runs one block of clients after the other, on one device.

  An actor fetches functions and the shared values of a pass when it first needs them. It keeps functions for
  its lifetime, and shared values until it needs those of another pass.
  """

  def __init__(self) -> None:
    _search_python_path_first()
    compat.stop_eager_tensor_leak()
    devices.prefer_one_thread()
    self._device = devices.find_devices("auto")[0]
    self._functions: dict[str, tuple[str, int, chunks.Layout]] = {}
    self._shared_id = ""
    self._shared: list[tf.Tensor] = []

  def describe(self) -> str:
    """Returns where this actor runs, for the log."""
    node = ray.get_runtime_context().get_node_id()[:8]
    return f"process {os.getpid()} on {socket.gethostname()} (node {node}, {self._device[-5:]})"

  def run(
    self,
    key: str,
    function: list[ray.ObjectRef],
    shared: list[ray.ObjectRef],
    block: list[list[Any]],
  ) -> tuple[list[Any], list[list[Any]]] | Failure:
    """Runs a function for the clients of one block.

    Args:
      key: The hash of the function.
      function: A list with the reference to the function. Ray would resolve a reference outside of a list.
      shared: A list with the reference to the shared values.
      block: The own values of each client of the block, encoded.

    Returns:
      The encoded partial aggregates and the encoded values to keep of each client, or the error of the
      clients' TensorFlow code.
    """
    name, num_outputs, layout = self._function(key, function[0])
    values, own = self._shared_values(shared[0]), []
    for client in block:
      try:
        own.append([wire.decode(item) for item in client])
      except tf.errors.OpError as error:
        return Failure(error.error_code, error.message, len(own))

    def call(inputs: list[tf.Tensor]) -> list[tf.Tensor]:
      return functions.execute(name, inputs, num_outputs, self._device)

    def run(parts: Sequence[Sequence[int]]) -> list[chunks.BlockResult]:
      return chunks.run_blocks(call, layout, values, [[own[i] for i in p] for p in parts])

    positions = [range(len(block))]
    try:
      ((partial, kept),) = run(positions)
    except tf.errors.OpError as error:
      found, place = errors.failing_client(error, positions, run)
      return Failure(found.error_code, found.message, place)
    encoded = [[wire.encode(tensor) for tensor in tensors] for tensors in kept]
    return [wire.encode(tensor) for tensor in partial], encoded

  def _function(self, key: str, reference: ray.ObjectRef) -> tuple[str, int, chunks.Layout]:
    if key not in self._functions:
      (name, num_outputs, definitions), layout = pickle.loads(ray.get(reference))
      context = eager_context.context()
      context.ensure_initialized()
      for serialized in definitions:
        definition = function_pb2.FunctionDef.FromString(serialized)
        if not context.has_function(definition.signature.name):
          context.add_function_def(definition)
      self._functions[key] = (name, num_outputs, layout)
    return self._functions[key]

  def _shared_values(self, reference: ray.ObjectRef) -> list[tf.Tensor]:
    if self._shared_id != reference.hex():
      with tf.device(self._device):
        self._shared = [tf.identity(wire.decode(item)) for item in ray.get(reference)]
      self._shared_id = reference.hex()
    return self._shared
