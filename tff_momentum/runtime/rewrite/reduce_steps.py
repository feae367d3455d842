"""The functions of reductions: what their loops carry from one step to the next.

A loop carries the values of the state that some result needs (see `live_values`) and the captured tensors
that are not constants. All other arguments of the function become constants in the loop's body.
"""

import dataclasses
from collections.abc import Mapping

import tensorflow as tf
from tensorflow.core.framework import function_pb2, node_def_pb2, tensor_shape_pb2

from tff_momentum.runtime.rewrite import node_defs
from tff_momentum.runtime.rewrite.live_values import LiveValues

_SMALL = 64  # elements; larger values stay variables of the loop
_NO_CONSTANTS = (tf.string, tf.resource, tf.variant)


@dataclasses.dataclass(frozen=True)
class Step:
  """The function of a reduction, and what the loop need not carry from one call of it to the next.

  Attributes:
    definition: The function of (state, element, captured tensors) -> state.
    num_states: The number of tensors in the state.
    num_captured: The number of captured tensors.
    constants: The arguments that are constants in the loop's body, by position: values that no result needs,
      and captured constants.
  """

  definition: function_pb2.FunctionDef
  num_states: int
  num_captured: int
  constants: Mapping[int, node_def_pb2.NodeDef]

  @property
  def elements(self) -> range:
    """The positions of the element's components among the arguments."""
    return range(self.num_states, len(self.definition.signature.input_arg) - self.num_captured)

  @property
  def states(self) -> list[int]:
    """The positions of the values of the state that the loop carries."""
    return [i for i in range(self.num_states) if i not in self.constants]

  @property
  def captured(self) -> list[int]:
    """The positions of the captured tensors that the loop carries."""
    count = len(self.definition.signature.input_arg)
    return [i for i in range(self.elements.stop, count) if i not in self.constants]


def step_in_function(
  reduce: node_def_pb2.NodeDef,
  caller: function_pb2.FunctionDef,
  library: Mapping[str, function_pb2.FunctionDef],
  live: LiveValues,
) -> Step:
  """Returns the function of a reduction in a function, with what its loop need not carry."""
  step = whole_step(reduce, library)
  name, states = step.definition.signature.name, range(step.num_states)
  used = {
    int(source.rpartition(":")[2])
    for source in (*(i for node in caller.node_def for i in node.input), *caller.ret.values())
    if source.startswith(f"{reduce.name}:")
  }
  needed = live.needed(name, used)
  while not needed.intersection(states) <= used:
    used |= needed.intersection(states)
    needed = live.needed(name, used)
  constants = {}
  nodes = {node.name: node for node in caller.node_def}
  data = [source for source in reduce.input if not source.startswith("^")]
  for i, argument in enumerate(step.definition.signature.input_arg):
    if i in step.elements:
      continue
    place = f"constant_{i}"
    if i not in needed | used:
      elements = tf.TensorShape(argument_shape(step.definition, i)).num_elements()
      dtype = tf.as_dtype(argument.type)
      if elements is not None and elements <= _SMALL and dtype not in _NO_CONSTANTS:
        shape = tf.TensorShape(argument_shape(step.definition, i))
        constants[i] = node_defs.zeros(place, shape, dtype)
    elif i >= step.elements.stop:
      source = nodes.get(data[1 + i - len(step.elements)].split(":")[0])
      if source is not None and is_small_constant(source):
        constants[i] = node_defs.node_def("Const", place, [], source.attr)
  return dataclasses.replace(step, constants=constants)


def whole_step(
  reduce: node_def_pb2.NodeDef, library: Mapping[str, function_pb2.FunctionDef]
) -> Step:
  """Returns the function of a reduction whose loop carries everything."""
  states, captured = (len(reduce.attr[key].list.type) for key in ("Tstate", "Targuments"))
  return Step(library[reduce.attr["f"].func.name], states, captured, constants={})


def is_small_constant(node: node_def_pb2.NodeDef) -> bool:
  """Whether a node is a constant of few elements."""
  if node.op != "Const":
    return False
  elements = tf.TensorShape(node.attr["value"].tensor.tensor_shape).num_elements()
  return elements is not None and elements <= _SMALL


def argument_shape(
  function: function_pb2.FunctionDef, index: int
) -> tensor_shape_pb2.TensorShapeProto:
  """Returns the shape of a function's argument, as far as it is known."""
  shapes = function.arg_attr[index].attr["_output_shapes"].list.shape
  return shapes[0] if shapes else tf.TensorShape(None).as_proto()
