"""What TensorFlow's wheel says about its GPU kernels, which it registers even where there is no GPU.

For a node of a graph: whether it has a GPU kernel for its dtypes, and which of its inputs and outputs that
kernel wants in the host's memory. TensorFlow copies a tensor between the GPU's memory and the host's wherever
the two ends of an edge disagree, also inside one GPU's part of a graph.
"""

import functools
from collections.abc import Iterator, Mapping

import tensorflow as tf
from tensorflow.core.framework import attr_value_pb2, kernel_def_pb2, node_def_pb2, op_def_pb2
from tensorflow.python.framework import kernels, op_def_registry

# A kernel for "DEFAULT" serves every device without a kernel of its own.
_ON_GPU = ("GPU", "DEFAULT")
_ON_XLA = ("XLA_GPU_JIT",)
_ALWAYS_ON_HOST = (tf.string, tf.resource)
# Ops that call functions, whose bodies are looked at instead.
CALLS = ("PartitionedCall", "StatefulPartitionedCall", "While", "StatelessWhile", "If", "StatelessIf",
         "Case", "StatelessCase")  # fmt: skip
# The ends of a function, and ops that the runtime removes or replaces before a kernel is needed.
_NO_KERNEL = ("_Arg", "_Retval", "Placeholder", "DeviceIndex")


def plain_op(op: str) -> str:
  """Returns the op behind a variant for CPUs, such as `_MklMatMul`, into which graphs are optimised."""
  for prefix in ("_MklNative", "_Mkl"):
    op = op.removeprefix(prefix) if op.startswith(prefix) else op
  return op.removeprefix("_").removeprefix("Fused") if op.startswith(("Fused", "_Fused")) else op


def has_gpu_kernel(node: node_def_pb2.NodeDef, *, compiled: bool = False) -> bool:
  """Whether an op can run on a GPU with the dtypes of this node.

  Args:
    node: A node of a graph or of a function.
    compiled: Whether XLA compiles the op; then XLA's kernel for GPUs counts.
  """
  if node.op in CALLS or node.op in _NO_KERNEL:
    return True
  return _find(node, _ON_XLA if compiled else _ON_GPU) is not None


def dtypes(node: node_def_pb2.NodeDef) -> str:
  """Returns the dtypes of a node for a message, such as "T=float32"."""
  said = []
  for name, value in sorted(node.attr.items()):
    if value.HasField("type"):
      said.append(f"{name}={tf.as_dtype(value.type).name}")
  return ", ".join(said)


def host_inputs(node: node_def_pb2.NodeDef) -> list[bool]:
  """Returns for each input whether the op wants it in the host's memory when it runs on a GPU."""
  return _on_host(node, is_input=True)


def host_outputs(node: node_def_pb2.NodeDef) -> list[bool]:
  """Returns for each output whether the op leaves it in the host's memory when it runs on a GPU."""
  return _on_host(node, is_input=False)


def _on_host(node: node_def_pb2.NodeDef, is_input: bool) -> list[bool]:
  definition = op_def_registry.get(plain_op(node.op))
  if definition is None:
    return []
  kernel = None if node.op in (*CALLS, *_NO_KERNEL) else _find(node, _ON_GPU)
  named = set(kernel.host_memory_arg) if kernel is not None else set()
  found: list[bool] = []
  for argument in definition.input_arg if is_input else definition.output_arg:
    for dtype in _types_of(argument, node):
      # Functions take and return int32 in the host's memory, as most kernels of small integers do.
      by_type = dtype in _ALWAYS_ON_HOST or (kernel is None and dtype == tf.int32)
      found.append(argument.name in named or by_type)
  return found


def _types_of(argument: op_def_pb2.OpDef.ArgDef, node: node_def_pb2.NodeDef) -> Iterator[tf.DType]:
  """Yields the dtypes of an argument, which may stand for several tensors."""
  if argument.type_list_attr:
    yield from map(tf.as_dtype, node.attr[argument.type_list_attr].list.type)
    return
  count = node.attr[argument.number_attr].i if argument.number_attr else 1
  dtype = argument.type or (node.attr[argument.type_attr].type if argument.type_attr else 0)
  yield from [tf.as_dtype(dtype or tf.float32.as_datatype_enum)] * count


@functools.cache
def _kernels(op: str) -> tuple[kernel_def_pb2.KernelDef, ...]:
  return tuple(kernels.get_registered_kernels_for_op(op).kernel)


def _find(
  node: node_def_pb2.NodeDef, device_types: tuple[str, ...]
) -> kernel_def_pb2.KernelDef | None:
  """Returns the kernel that TensorFlow would take: of the first device type that has one, by priority."""
  op = plain_op(node.op)
  types = tuple((name, _types_in(node.attr.get(name))) for name in _constrained(op))
  return _kernel(op, types, device_types)


@functools.cache
def _kernel(
  op: str, types: tuple[tuple[str, frozenset[int]], ...], device_types: tuple[str, ...]
) -> kernel_def_pb2.KernelDef | None:
  found = dict(types)
  for device_type in device_types:
    fitting = [
      kernel
      for kernel in _kernels(op)
      if kernel.device_type == device_type and _fits(kernel, op, found)
    ]
    if fitting:
      return max(fitting, key=lambda kernel: kernel.priority)
  return None


@functools.cache
def _constrained(op: str) -> tuple[str, ...]:
  """Returns the attributes that decide between the kernels of an op."""
  return tuple(sorted({each.name for kernel in _kernels(op) for each in kernel.constraint}))


def _types_in(value: attr_value_pb2.AttrValue | None) -> frozenset[int]:
  """Returns the data types that an attribute holds; none if the node does not have it."""
  if value is None:
    return frozenset()
  return frozenset([value.type] if value.HasField("type") else value.list.type)


def _fits(kernel: kernel_def_pb2.KernelDef, op: str, types: Mapping[str, frozenset[int]]) -> bool:
  for constraint in kernel.constraint:
    allowed = set(constraint.allowed_values.list.type)
    found = types[constraint.name] or _types_in(_default(op, constraint.name))
    if allowed and not found <= allowed:
      return False
  return True


def _default(op: str, name: str) -> attr_value_pb2.AttrValue | None:
  definition = op_def_registry.get(op)
  for attribute in definition.attr if definition is not None else ():
    if attribute.name == name and attribute.HasField("default_value"):
      return attribute.default_value
  return None


@functools.cache
def register_xla_kernels() -> None:
  """Makes TensorFlow register XLA's kernels, which it does when it first compiles something."""
  tf.function(lambda x: x + 1, jit_compile=True)(tf.constant(1.0))
  _kernels.cache_clear()
  _kernel.cache_clear()
  _constrained.cache_clear()
