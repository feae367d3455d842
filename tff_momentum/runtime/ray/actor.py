"""The part of the Ray runtime that runs on the cluster's nodes: one actor per device."""

import dataclasses
import itertools
import os
import socket
import sys
import time
from collections.abc import Sequence
from typing import Any, NamedTuple

import ray
import tensorflow as tf
from tensorflow.core.framework import function_pb2
from tensorflow.python.eager import context as eager_context

from tff_momentum.runtime import chunks, compat, devices, errors, functions, gpu_settings, heap
from tff_momentum.runtime.executors import to_device
from tff_momentum.runtime.gpu_decisions import DeviceKind, Options
from tff_momentum.runtime.ray import client_data, wire


@dataclasses.dataclass(frozen=True)
class Failure:
  """An error of a client; TensorFlow's own exceptions cannot be pickled faithfully.

  Attributes:
    message: The message.
    client: The client's place in its chunk; None if it is unknown.
    code: TensorFlow's code of the error; None if it occurred before the client's TensorFlow code ran.
  """

  message: str
  client: int | None
  code: int | None

  def error(self, client: str) -> Exception:
    """Returns the exception that the actor caught, with the name of the client in its message."""
    if self.code is None:
      return RuntimeError(f"{client} failed before its TensorFlow code ran: {self.message}")
    kind = tf.compat.v1.errors.exception_type_from_error_code(self.code)
    return errors.name_client(kind(None, None, self.message), client)


class Place(NamedTuple):
  """Where an actor runs, and for which kind of device the head makes its graphs.

  Attributes:
    text: The process, the node and the device, for the log.
    kind: The kind of the device.
    can_compile: Whether XLA can compile for it.
  """

  text: str
  kind: DeviceKind
  can_compile: bool


def _search_python_path_first() -> None:
  """Ray searches the driver's working directory first, where a file could hide a module of this project."""
  first = list(filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep)))
  sys.path[:] = [*first, *(path for path in sys.path if path not in first)]


class ClientActor:
  """Runs one chunk of clients after the other, on one device.

  An actor fetches functions and the shared values of a pass when it first needs them. It keeps functions for
  its lifetime, and shared values until it needs those of another pass.
  """

  def __init__(self, as_gpu: bool = False) -> None:
    """Starts TensorFlow's devices; `as_gpu` lets a CPU take the place of a GPU, for tests."""
    _search_python_path_first()
    compat.stop_eager_tensor_leak()
    heap.keep_freed_memory()
    # An actor takes one CPU, so a second thread would take time from other actors; a GPU is fed by two.
    devices.configure_threads(inter_op=2 if tf.config.get_visible_devices("GPU") else 1)
    self._device = devices.find_devices("auto")[0]
    on_gpu = "GPU" in self._device
    self._kind: DeviceKind = "GPU" if on_gpu or as_gpu else "CPU"
    self._can_compile = not on_gpu or gpu_settings.prepare_gpus(Options()).compiles
    self._functions: dict[str, tuple[str, int, chunks.Layout]] = {}
    self._examples = client_data.KeptExamples()
    self._shared_id = ""
    self._shared: list[tf.Tensor] = []

  def describe(self) -> Place:
    """Returns where this actor runs."""
    node = ray.get_runtime_context().get_node_id()[:8]
    text = f"process {os.getpid()} on {socket.gethostname()} (node {node}, {self._device[-5:]})"
    return Place(text, self._kind, self._can_compile)

  def run(
    self,
    key: str,
    function: list[ray.ObjectRef],
    shared: list[ray.ObjectRef],
    chunk: wire.PackedValue,
    examples: list[ray.ObjectRef],
  ) -> wire.PackedValue | Failure:
    """Runs a function for the clients of one or more blocks.

    Args:
      key: The hash of the function.
      function: A list with the reference to the function. Ray would resolve a reference outside of a list.
      shared: A list with the reference to the shared values.
      chunk: The number of clients of each block, what this actor has to learn about the clients' examples,
        and the own values of all clients.
      examples: The references to examples that this actor does not have yet.

    Returns:
      The seconds that it took, the partial aggregates of each block and the values to keep of each client; or
      the error of a client.
    """
    start = time.perf_counter()
    name, num_outputs, layout = self._function(key, function[0])
    values = self._shared_values(shared[0])
    sizes, news, columns = wire.unpack(chunk)
    self._examples.learn(news, examples)
    try:
      own = wire.rows_of([self._decode(column) for column in columns], sum(sizes))
    except wire.RowError as error:
      return _failure(error.__cause__, error.row)

    def call(inputs: list[tf.Tensor]) -> list[tf.Tensor]:
      return functions.execute(name, inputs, num_outputs, self._device)

    def run(parts: Sequence[Sequence[int]]) -> list[chunks.BlockResult]:
      return chunks.run_blocks(call, layout, values, [[own[i] for i in p] for p in parts])

    ends = list(itertools.accumulate(sizes))
    blocks = [range(end - size, end) for size, end in zip(sizes, ends, strict=True)]
    try:
      results = run(blocks)
    except tf.errors.OpError as error:
      return _failure(*errors.failing_client(error, blocks, run))
    partials = wire.encode_rows([result.partial for result in results])
    kept = wire.encode_rows([client for result in results for client in result.kept])
    return wire.pack((time.perf_counter() - start, partials, kept))

  def _decode(self, column: Any) -> list[tf.Tensor]:
    if isinstance(column, client_data.StoredBatches):
      return self._examples.leaves(column)
    return wire.decode_column(column, share=True)

  def _function(self, key: str, reference: ray.ObjectRef) -> tuple[str, int, chunks.Layout]:
    if key not in self._functions:
      (name, num_outputs, definitions), layout = wire.unpack(ray.get(reference))
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
      encoded = wire.unpack(ray.get(reference))
      self._shared = [to_device(wire.decode(item, share=True), self._device) for item in encoded]
      self._shared_id = reference.hex()
    return self._shared


def _failure(error: BaseException | None, client: int | None) -> Failure:
  if isinstance(error, tf.errors.OpError):
    return Failure(error.message, client, error.error_code)
  return Failure(f"{type(error).__name__}: {error}", client, None)
