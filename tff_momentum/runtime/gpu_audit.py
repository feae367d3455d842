"""Finds, without a GPU, what would be slow on one: ops without a kernel, and copies inside clients' loops.

A computation runs on a second logical CPU device, which takes the place of the GPU, while TensorFlow records
the graphs of the functions that it executes. Then

* every op of a client's function, its loops, branches and the functions it calls is looked up in the list of
  GPU kernels that TensorFlow's wheel registers;
* in the graph of each device, as TensorFlow optimised and partitioned it, tensors that cross between devices
  inside a loop are counted, and those for which a GPU's kernels disagree about the memory to keep them in.

GPUs have optimisations of their own (layouts, fusions), so the counts are those of the graph before them.
"""

import collections
import contextlib
import dataclasses
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Literal, NamedTuple

import tensorflow as tf
import tensorflow_federated as tff
from tensorflow.core.framework import function_pb2, node_def_pb2
from tensorflow.core.protobuf import config_pb2
from tensorflow.python.eager import context as eager_context

from tff_momentum.runtime import devices, execution, gpu_kernels
from tff_momentum.runtime.rewrite.xla_calls import XLA_ATTRIBUTE

# The device that takes the place of a GPU.
DEVICE = "/device:CPU:1"
# Operations without a GPU kernel that are allowed: (op, dtypes) -> reason.
EXCEPTIONS = {
  ("Const", "dtype=string"): "the message of an assertion, which stays on the host",
}
# Ops that move a tensor to another device.
_CROSSINGS = ("_Send", "_HostSend")
# What a step does for a smaller batch, or once in an epoch; the usual step is counted without it.
_RARE = re.compile(r"/else/_\d+/|/element/cond/then/_\d+/")
# Ops that launch no kernel: they pass a tensor on, or only the host is involved.
_FREE = frozenset(
  ("Const", "Enter", "Exit", "Identity", "IdentityN", "LoopCond", "Merge", "NextIteration", "NoOp", "Switch",
   "Reshape", "Squeeze", "ExpandDims", "StopGradient", "PreventGradient", "Shape", "ShapeN", "Size", "Rank",
   "_Send", "_Recv", "_HostSend", "_HostRecv", "_Arg", "_Retval", "TensorListGetItem", "TensorListSetItem",
   "TensorListReserve", "TensorListPushBack", "TensorListPopBack", "EmptyTensorList", "TensorListLength",
   "TensorListElementShape", "TensorListFromTensor", "Assert")
)  # fmt: skip


@dataclasses.dataclass(frozen=True)
class GpuFinding:
  """Something that hurts on a GPU: which op, with which dtypes, and where."""

  op: str
  dtypes: str
  where: str

  def __str__(self) -> str:
    return f"{self.op} ({self.dtypes}) in {self.where}"


@dataclasses.dataclass(frozen=True)
class Audit:
  """What an audit found.

  Attributes:
    without_kernel: The ops of clients' functions that would run on the CPU.
    crossings: The tensors that move between devices inside a loop.
    copies: The tensors that a GPU would copy between its memory and the host's inside a loop: sizes, labels
      and the like. TensorFlow keeps 32-bit integers on the host wherever control flow touches them.
    launches: Kernels that a local step with a full-sized batch launches, compiled code aside.
    compiled: Calls of compiled code in that step, each of which launches some kernels.
    functions: The number of clients' functions that were looked at.
    kinds: The kinds of ops in them, with dtypes.
  """

  without_kernel: tuple[GpuFinding, ...]
  crossings: tuple[GpuFinding, ...]
  copies: tuple[GpuFinding, ...]
  launches: int
  compiled: int
  functions: int
  kinds: frozenset[str]

  def forbidden(self) -> list[str]:
    """Returns the ops without a kernel, but for `EXCEPTIONS`."""
    return [str(f) for f in self.without_kernel if (f.op, f.dtypes) not in EXCEPTIONS]


def set_audited_context(compile: Literal["auto", "on", "off"] = "auto") -> None:
  """Makes TFF run clients on `DEVICE`, with the graphs for a GPU.

  Recurrent layers are compiled, because a CPU cannot take the place of a GPU for cuDNN's kernels.

  Raises:
    RuntimeError: TensorFlow has already started without a second logical CPU device.
  """
  devices.find_devices("cpu:2")
  context = execution.create_inprocess_context(
    [DEVICE], as_gpu=True, compile=compile, gpu_recurrent="xla"
  )
  tff.framework.set_default_context(context)


def audit(run: Callable[[], object], device: str = DEVICE) -> Audit:
  """Runs something and returns what a GPU in the place of `device` would do.

  Args:
    run: Executes a computation for the first time: TensorFlow records a function's graph when it is first
      called. Clients need no examples, because the graph of a loop does not depend on its iterations.
    device: The name of the device on which clients run, such as "/device:CPU:1".
  """
  gpu_kernels.register_xla_kernels()
  with _collected_graphs() as collected:
    run()
  missing: dict[GpuFinding, None] = {}
  crossings: dict[GpuFinding, None] = {}
  copies: dict[GpuFinding, None] = {}
  kinds: set[str] = set()
  launches = compiled = functions = 0
  for graphs in collected.function_graphs:
    parts = [part for part in graphs.partition_graphs if part.node]
    if not graphs.pre_optimization_graph.node or not _runs_on(parts, device):
      continue
    functions += 1
    for op in placed_ops(graphs.pre_optimization_graph):
      kinds.add(f"{op.finding.op} ({op.finding.dtypes})")
      if not op.has_kernel:
        missing[op.finding] = None
    for part in parts:
      loops = Loops(part)
      crossings.update(dict.fromkeys(loops.crossings()))
      if part.node[0].device.endswith(device):
        copies.update(dict.fromkeys(loops.copies()))
        step = loops.per_iteration()
        launches, compiled = max((launches, compiled), step)
  found = (tuple(missing), tuple(crossings), tuple(copies))
  return Audit(*found, launches, compiled, functions, frozenset(kinds))


def _runs_on(parts: Iterable[tf.compat.v1.GraphDef], device: str) -> bool:
  return any(part.node[0].device.endswith(device) for part in parts)


@contextlib.contextmanager
def _collected_graphs() -> Iterator[config_pb2.RunMetadata]:
  """Yields a message that holds, after the block, the graphs of all functions instantiated in it."""
  context = eager_context.context()
  context.ensure_initialized()
  collected = config_pb2.RunMetadata()
  context.enable_graph_collection()
  try:
    yield collected
  finally:
    collected.CopyFrom(context.export_run_metadata())
    context.disable_graph_collection()


class PlacedOp(NamedTuple):
  """An op of a graph, and whether a GPU can run it."""

  finding: GpuFinding
  has_kernel: bool


def ops_without_kernel(graph_def: tf.compat.v1.GraphDef) -> list[GpuFinding]:
  """Returns the ops of a graph, and of all functions that it calls, that have no GPU kernel."""
  return list(dict.fromkeys(op.finding for op in placed_ops(graph_def) if not op.has_kernel))


def placed_ops(graph_def: tf.compat.v1.GraphDef) -> Iterator[PlacedOp]:
  """Yields the ops of a graph, and of all functions that it calls.

  The bodies of functions that XLA compiles need XLA's kernels instead of TensorFlow's. Ops that the graph
  itself puts on the CPU need none.
  """
  library = {function.signature.name: function for function in graph_def.library.function}
  seen: set[tuple[str, bool]] = set()

  def visit(
    nodes: Iterable[node_def_pb2.NodeDef], where: str, compiled: bool
  ) -> Iterator[PlacedOp]:
    for node in nodes:
      called = list(_called(node, library))
      inside = compiled or _is_marked(node)
      if not called:
        on_host = "device:CPU" in node.device
        fits = on_host or gpu_kernels.has_gpu_kernel(node, compiled=compiled)
        yield PlacedOp(GpuFinding(node.op, gpu_kernels.dtypes(node), where or node.name), fits)
      for function in called:
        key = (function.signature.name, inside or _is_marked(function))
        if key not in seen:
          seen.add(key)
          yield from visit(function.node_def, *key)

  yield from visit(graph_def.node, "", False)


def _is_marked(item: node_def_pb2.NodeDef | function_pb2.FunctionDef) -> bool:
  return XLA_ATTRIBUTE in item.attr and item.attr[XLA_ATTRIBUTE].b


def _called(
  node: node_def_pb2.NodeDef, library: Mapping[str, function_pb2.FunctionDef]
) -> Iterator[function_pb2.FunctionDef]:
  names = [node.op]
  for attribute in node.attr.values():
    names += [attribute.func.name] if attribute.HasField("func") else []
    names += [function.name for function in attribute.list.func]
  yield from (library[name] for name in names if name in library)


class Loops:
  """The loops of one device's part of a graph, in which loops are made of Enter, Switch, Merge and Exit."""

  def __init__(self, graph_def: tf.compat.v1.GraphDef):
    self._nodes = {node.name: node for node in graph_def.node}
    self._frames = self._find_frames()

  def _find_frames(self) -> dict[str, tuple[str, ...]]:
    """Returns the loops that each node is in, the outermost first."""
    readers: dict[str, list[str]] = collections.defaultdict(list)
    for node in self._nodes.values():
      for name in node.input:
        readers[_node_name(name)].append(node.name)
    frames: dict[str, tuple[str, ...]] = {}
    waiting: collections.deque[tuple[str, tuple[str, ...]]] = collections.deque(
      (node.name, ()) for node in self._nodes.values() if not node.input
    )
    while waiting:
      name, frame = waiting.popleft()
      node = self._nodes[name]
      if node.op == "Enter":
        frame = (*frame, node.attr["frame_name"].s.decode())
      if name in frames and len(frames[name]) >= len(frame):
        continue
      frames[name] = frame
      after = frame[:-1] if node.op == "Exit" else frame
      waiting.extend((reader, after) for reader in readers[name])
    return frames

  def _inside(self, node: node_def_pb2.NodeDef) -> tuple[str, ...]:
    return self._frames.get(node.name, ())

  def crossings(self) -> list[GpuFinding]:
    """Returns the tensors that leave this device inside a loop."""
    return [
      GpuFinding(node.op, gpu_kernels.dtypes(node), node.attr["tensor_name"].s.decode())
      for node in self._nodes.values()
      if node.op in _CROSSINGS and self._inside(node)
    ]

  def copies(self) -> list[GpuFinding]:
    """Returns the tensors that a GPU would copy to or from the host's memory inside a loop."""
    found = []
    for node in self._nodes.values():
      if not self._inside(node) or node.op in (*_CROSSINGS, "Enter"):
        continue
      wanted = gpu_kernels.host_inputs(node)
      data = [name for name in node.input if not name.startswith("^")]
      for name, on_host in zip(data, wanted, strict=False):
        source = self._nodes[_node_name(name)]
        outputs = gpu_kernels.host_outputs(source)
        port = int(name.split(":")[1]) if ":" in name else 0
        if port < len(outputs) and outputs[port] != on_host and source.op != "_Recv":
          way = "to the host" if on_host else "to the GPU"
          said = f"{gpu_kernels.dtypes(node)}; {source.op} {way}"
          found.append(GpuFinding(node.op, said, node.name))
    return found

  def per_iteration(self) -> tuple[int, int]:
    """Returns the kernels and the calls of compiled code in a usual iteration of the busiest loop."""
    counts: collections.Counter[tuple[str, ...]] = collections.Counter()
    compiled: collections.Counter[tuple[str, ...]] = collections.Counter()
    for node in self._nodes.values():
      frame = self._inside(node)
      if not frame or _RARE.search(node.name):
        continue
      if node.op in ("XlaLaunch", "_XlaRun") or _is_marked(node):
        compiled[frame] += 1
      elif self._launches(node):
        counts[frame] += 1
    return max(((counts[f], compiled[f]) for f in {*counts, *compiled}), default=(0, 0))

  def _launches(self, node: node_def_pb2.NodeDef) -> bool:
    outputs = gpu_kernels.host_outputs(node)
    return node.op not in _FREE and bool(outputs) and not all(outputs)


def _node_name(input_name: str) -> str:
  return input_name.removeprefix("^").split(":")[0]


def summary(findings: Sequence[GpuFinding], most: int = 10) -> str:
  """Returns the findings for a message, one per line."""
  lines = [f"  {finding}" for finding in findings[:most]]
  return "\n".join(lines + ([f"  and {len(findings) - most} more"] if len(findings) > most else []))
