"""Adds the client and the operation to errors of a client's TensorFlow code."""

import contextlib
import contextvars
import re
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import tensorflow as tf

ClientLabel = Callable[[int], str]

_client_label: contextvars.ContextVar[ClientLabel] = contextvars.ContextVar(
  "client_label", default=lambda index: f"client {index} of the cohort"
)
_OPERATION = re.compile(r"\{\{node ([^}]*)\}\}")


@contextlib.contextmanager
def client_labels(label: ClientLabel) -> Iterator[None]:
  """Sets how error messages name clients inside the `with` block.

  Args:
    label: A function from a client's index in the cohort to its name.

  >>> from tff_momentum import runtime
  >>> cohort = ["f_12", "f_13"]
  >>> with runtime.client_labels(lambda index: f"client {cohort[index]}"):
  ...   pass  # a failing computation reports "client f_13 failed in operation ..."
  """
  token = _client_label.set(label)
  try:
    yield
  finally:
    _client_label.reset(token)


def current_label() -> ClientLabel:
  """Returns the function that names a client by its index in the cohort."""
  return _client_label.get()


def name_client(error: tf.errors.OpError, client: str) -> tf.errors.OpError:
  """Returns an error of the same class whose message starts with the client and the operation."""
  operations = _OPERATION.findall(error.message)
  operation = f"operation {operations[-1]!r}" if operations else "its TensorFlow code"
  message = f"{client} failed in {operation}: {error.message}"
  if type(error) is tf.errors.OpError:
    return tf.errors.OpError(error.node_def, error.op, message, error.error_code)
  return type(error)(error.node_def, error.op, message)


def failing_client(
  error: tf.errors.OpError,
  blocks: Sequence[Sequence[int]],
  run: Callable[[Sequence[Sequence[int]]], Any],
) -> tuple[tf.errors.OpError, int | None]:
  """Finds the client that makes a chunk fail, by running parts of the chunk again.

  The client is the last one of the shortest part of a block that fails: its own work fails, or adding its
  result to those before it.

  Args:
    error: The error of the whole chunk.
    blocks: The positions of the clients of each block of the chunk.
    run: Runs some blocks, or beginnings of blocks.

  Returns:
    The client's error and its position; None for the position if no part fails again.
  """

  def failure(part: Sequence[int]) -> tf.errors.OpError | None:
    try:
      run([part])
    except tf.errors.OpError as again:
      return again
    return None

  if len(blocks) == 1 == len(blocks[0]):
    return error, blocks[0][0]
  for block in blocks:
    found = failure(block)
    if found is None:
      continue
    passes, fails = 0, len(block)
    while fails - passes > 1:
      middle = (passes + fails) // 2
      earlier = failure(block[:middle])
      if earlier is None:
        passes = middle
      else:
        fails, found = middle, earlier
    return found, block[fails - 1]
  return error, None
