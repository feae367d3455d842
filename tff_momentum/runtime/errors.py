"""Adds the client and the operation to errors of a client's TensorFlow code."""

import contextlib
import contextvars
import re
from collections.abc import Callable, Iterator

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
