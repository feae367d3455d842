"""Traces Python code into TensorFlow functions from flat lists of tensors to flat lists of tensors.

The functions are called directly through TensorFlow's eager runtime. The arguments are tensors in the right
order, so the usual handling of Python structures, which takes longer than a small client's training step, is
not needed.
"""

import collections
import functools
import itertools
import threading
import weakref
from collections.abc import Callable, Sequence

import tensorflow as tf
from tensorflow.core.protobuf import rewriter_config_pb2
from tensorflow.python import pywrap_tfe
from tensorflow.python.eager import context as eager_context
from tensorflow.python.eager import core as eager_core
from tensorflow.python.eager.polymorphic_function import atomic_function
from tensorflow.python.framework import func_graph as func_graph_lib

_names = itertools.count()
_library_users: collections.Counter[str] = collections.Counter()
_lock = threading.Lock()


class FlatFunction:
  """A traced function; `function(inputs, device)` runs it on a device.

  Attributes:
    label: A name for logs and tests.
    used: The positions of the inputs that the function reads; only these are sent to the device.
    specs: The specs of these inputs.
  """

  def __init__(
    self,
    label: str,
    python_function: Callable[[list[tf.Tensor]], list[tf.Tensor]],
    input_specs: Sequence[tf.TensorSpec],
    folded: bool = True,
  ):
    """Traces a function.

    Args:
      label: A name for logs and tests.
      python_function: What to trace; it may depend only on its arguments.
      input_specs: The specs of its arguments.
      folded: Whether TensorFlow replaces parts of the graph that do not depend on inputs, such as zeros, by
        constants; it keeps these in memory.
    """
    self.label = label
    graph = func_graph_lib.FuncGraph(label)
    with graph.as_default():
      placeholders = [
        tf.compat.v1.placeholder(spec.dtype, spec.shape, name=f"input_{i}")
        for i, spec in enumerate(input_specs)
      ]
      outputs = [tf.identity(tensor) for tensor in python_function(list(placeholders))]
    self.used = [i for i, tensor in enumerate(placeholders) if tensor.consumers()]
    self.specs = [input_specs[i] for i in self.used]
    self._preparation: tuple[threading.Event, threading.Thread] | None = None
    unused = {placeholders[i].op for i in set(range(len(placeholders))) - set(self.used)}
    graph.inputs = [placeholders[i] for i in self.used]
    graph.outputs = outputs
    if graph.captures:
      raise ValueError(
        f"Expected {label} to depend only on its arguments, found {len(graph.captures)} captured tensors; "
        "pass them as arguments."
      )
    _hide(graph, unused)
    _register_library(self, graph)
    self._function = atomic_function.from_func_graph(f"__runtime_{label}_{next(_names)}", graph, {})
    self._name = self._function.name.decode()
    self._num_outputs = len(outputs)
    self._folded = folded

  def __call__(self, inputs: Sequence[tf.Tensor], device: str | None = None) -> list[tf.Tensor]:
    """Runs the function on `device` with all declared inputs; unused ones may be anything."""
    return self.call_used([inputs[i] for i in self.used], device)

  def call_used(self, inputs: list[tf.Tensor], device: str | None = None) -> list[tf.Tensor]:
    """Runs the function on `device` with only the inputs listed in `used`."""
    preparation = self._preparation
    if preparation is not None and preparation[1] is not threading.current_thread():
      preparation[0].wait()
      self._preparation = None
    return execute(self._name, inputs, self._num_outputs, device, self._folded)

  def wait_before_calls(self, ended: threading.Event, thread: threading.Thread) -> None:
    """Makes calls in other threads than `thread`, which prepares the function, wait until it has ended."""
    self._preparation = (ended, thread)

  def definitions(self) -> tuple[str, int, list[bytes]]:
    """Returns what another process needs to `execute` it: name, number of outputs, serialised functions."""
    context = eager_context.context()
    found: dict[str, bytes] = {}
    names = [self._name]
    while names:
      name = names.pop()
      if name in found or not context.has_function(name):
        continue
      definition = context.get_function_def(name)
      found[name] = definition.SerializeToString(deterministic=True)
      for node in definition.node_def:
        names.append(node.op)
        for attribute in node.attr.values():
          called = [attribute.func] if attribute.HasField("func") else attribute.list.func
          names += [function.name for function in called]
    return self._name, self._num_outputs, list(found.values())


def execute(
  name: str,
  inputs: list[tf.Tensor],
  num_outputs: int,
  device: str | None = None,
  folded: bool = True,
) -> list[tf.Tensor]:
  """Runs the function that TensorFlow's eager runtime knows by `name`; without inputs, it is never folded."""
  context = eager_context.context()
  context.ensure_initialized()
  options = context.function_call_options
  attributes = (
    "executor_type",
    options.executor_type or "",
    "config_proto",
    _settings(options.config_proto_serialized, folded and bool(inputs)),
  )
  try:
    return pywrap_tfe.TFE_Py_Execute(context._handle, device, name, inputs, attributes, num_outputs)
  except eager_core._NotOkStatusException as error:
    raise eager_core._status_to_exception(error) from None


@functools.cache
def _settings(config: bytes, folded: bool) -> bytes:
  """How TensorFlow optimises a graph when it first runs it.

  By default it goes over a graph twice and looks for tensors to compute again instead of keeping them. The
  second time changes next to nothing, and neither makes the items of `experiments/benchmark.py` faster; but
  they take a second of item D's start, and 40 MB.
  """
  changed = tf.compat.v1.ConfigProto.FromString(config)
  rewrites = changed.graph_options.rewrite_options
  rewrites.meta_optimizer_iterations = rewriter_config_pb2.RewriterConfig.ONE
  rewrites.memory_optimization = rewriter_config_pb2.RewriterConfig.NO_MEM_OPT
  if not folded:
    rewrites.constant_folding = rewriter_config_pb2.RewriterConfig.OFF
  return changed.SerializeToString(deterministic=True)


def _hide(graph: func_graph_lib.FuncGraph, operations: set[tf.Operation]) -> None:
  """Leaves unused placeholders out of the function made from `graph`, where they would have no value."""
  if operations:
    kept = [operation for operation in graph.get_operations() if operation not in operations]
    graph.get_operations = lambda: kept


def _register_library(owner: object, graph: func_graph_lib.FuncGraph) -> None:
  """Registers the functions that `graph` imported with TensorFlow's runtime while `owner` lives."""
  names = []
  for name, function in graph._functions.items():
    if isinstance(function, atomic_function.AtomicFunction):
      continue  # registers itself
    with _lock:
      if not _library_users[name]:
        eager_context.context().add_function_def(function.definition)
      _library_users[name] += 1
    names.append(name)
  weakref.finalize(owner, _release_library, names).atexit = False


def _release_library(names: list[str]) -> None:
  for name in names:
    with _lock:
      _library_users[name] -= 1
      if not _library_users[name]:
        del _library_users[name]
        eager_context.context().remove_function(name)
