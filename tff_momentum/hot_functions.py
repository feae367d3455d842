"""The mark on the functions in which clients spend their time.

A client takes gradients in a function that `hot_function` makes. A runtime, which sees only the serialised
graph, finds such a function by its mark, an argument named `FULL_BATCH`, and may replace it with a faster
equivalent: the in-process runtime compiles some with XLA (see `runtime/rewrite/xla_choice.py`).

The mark is an argument and not an attribute of the function, because TensorFlow refuses attributes that it
does not know, and because the argument tells what a compiler needs to know: XLA compiles separately for every
shape, which pays off for full-sized batches only. TFF's own runtime ignores the argument.

A function may have a variant for GPUs, which calls kernels that exist only there. A graph holds the variant
as a function that nothing calls, and a node of the hot function names it. Runtimes for GPUs call the variant
instead (see `runtime/rewrite/gpu_variants.py`); all others never see it.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import function_pb2

# The mark: a boolean scalar argument, true where the call's batch has the usual number of examples.
FULL_BATCH = "tfm_full_batch"
# The name of the node, an operation that does nothing, that names a hot function's variant.
_VARIANT_NODE = "tfm_gpu_variant."
_VARIANT_ATTRIBUTE = "tfm_gpu_variant"
_traces_variants = False


def trace_gpu_variants() -> None:
  """Makes the graphs that are traced from now on hold the variants for GPUs, for runtimes with remote GPUs.

  A process that sees GPUs itself does so without being asked.
  """
  global _traces_variants
  _traces_variants = True


def add_gpu_variant(function: Callable[..., Any], variant: Callable[..., Any]) -> None:
  """Gives `function` a variant for GPUs, with the same arguments and results."""
  setattr(function, _VARIANT_ATTRIBUTE, variant)


def gpu_variant(definition: function_pb2.FunctionDef) -> str | None:
  """Returns the name of a hot function's variant for GPUs; None if it has none."""
  for node in definition.node_def:
    if node.op == "NoOp" and node.name.startswith(_VARIANT_NODE):
      return node.name.removeprefix(_VARIANT_NODE)
  return None


def hot_function(function: Callable[..., Any]) -> Callable[..., Any]:
  """Returns `function` as a marked `tf.function`.

  Args:
    function: A function of tensors. It must not need autograph. `add_gpu_variant` may give it a variant.

  Returns:
    The same function with one more argument, the keyword `tfm_full_batch`.

  >>> @hot_function
  ... def gradient(w, x):
  ...   return w - x
  >>> float(gradient(tf.constant(3.0), tf.constant(1.0), tfm_full_batch=tf.constant(True)))
  2.0
  """

  variant = getattr(function, _VARIANT_ATTRIBUTE, None)

  def tfm_hot_function(*arguments, tfm_full_batch):
    if variant is not None and (_traces_variants or tf.config.get_visible_devices("GPU")):
      _add_to_graph(variant, arguments, tfm_full_batch)
    return function(*arguments)

  return tf.function(tfm_hot_function, autograph=False)


def _add_to_graph(
  variant: Callable[..., Any], arguments: tuple[Any, ...], full_batch: tf.Tensor
) -> None:
  """Adds the variant to the graph that is being traced, without calling it."""

  def tfm_gpu_function(*arguments, tfm_full_batch):
    del tfm_full_batch
    return variant(*arguments)

  made = tf.function(tfm_gpu_function, autograph=False).get_concrete_function(
    *arguments, tfm_full_batch=full_batch
  )
  made.add_to_graph()
  tf.no_op(name=_VARIANT_NODE + made.name.decode())


def full_batch_argument(definition: function_pb2.FunctionDef) -> int | None:
  """Returns the position of a hot function's mark among its arguments; None for all other functions.

  Raises:
    ValueError: An argument has the mark's name, but is not boolean.
  """
  for position, argument in enumerate(definition.signature.input_arg):
    if argument.name == FULL_BATCH:
      if argument.type != tf.bool.as_datatype_enum:
        raise ValueError(
          f"Expected the argument {FULL_BATCH} of {definition.signature.name} to be boolean, found "
          f"{tf.as_dtype(argument.type).name}; rename the argument, or mark the function with hot_function."
        )
      return position
  return None
