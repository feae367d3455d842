"""The mark on the functions in which clients spend their time.

A client takes gradients in a function that `hot_function` makes. A runtime, which sees only the serialised
graph, finds such a function by its mark, an argument named `FULL_BATCH`, and may replace it with a faster
equivalent: the in-process runtime compiles some with XLA (see `runtime/rewrite/xla_choice.py`).

The mark is an argument and not an attribute of the function, because TensorFlow refuses attributes that it
does not know, and because the argument tells what a compiler needs to know: XLA compiles separately for every
shape, which pays off for full-sized batches only. TFF's own runtime ignores the argument.
"""

from collections.abc import Callable
from typing import Any

import tensorflow as tf
from tensorflow.core.framework import function_pb2

# The mark: a boolean scalar argument, true where the call's batch has the usual number of examples.
FULL_BATCH = "tfm_full_batch"


def hot_function(function: Callable[..., Any]) -> Callable[..., Any]:
  """Returns `function` as a marked `tf.function`.

  Args:
    function: A function of tensors. It must not need autograph.

  Returns:
    The same function with one more argument, the keyword `tfm_full_batch`.

  >>> @hot_function
  ... def gradient(w, x):
  ...   return w - x
  >>> float(gradient(tf.constant(3.0), tf.constant(1.0), tfm_full_batch=tf.constant(True)))
  2.0
  """

  def tfm_hot_function(*arguments, tfm_full_batch):
    del tfm_full_batch  # for the runtime
    return function(*arguments)

  return tf.function(tfm_hot_function, autograph=False)


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
