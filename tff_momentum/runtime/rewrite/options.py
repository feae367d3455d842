"""The choices that graph rewrites depend on, for the computation that is being traced."""

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator
from typing import Literal

# Which hot functions XLA compiles; `xla_choice` has the rule.
CompileMode = Literal["auto", "on", "off"]


@dataclasses.dataclass(frozen=True)
class RewriteOptions:
  """How the graphs of a computation are rewritten.

  Attributes:
    as_lists: Whether data sets reach the graph as lists of batches (see `array_datasets`).
    compile: Which hot functions XLA compiles (see `xla_choice`).
  """

  as_lists: bool = False
  compile: CompileMode = "auto"


class NeedsIterators(Exception):
  """The computation uses its data sets in a way that lists of batches do not support."""


_current: contextvars.ContextVar[RewriteOptions] = contextvars.ContextVar(
  "rewrite_options",
  default=RewriteOptions(),  # noqa: B039 (frozen)
)


def current() -> RewriteOptions:
  """Returns the options in force."""
  return _current.get()


@contextlib.contextmanager
def using(options: RewriteOptions) -> Iterator[None]:
  """Puts `options` in force inside the `with` block."""
  token = _current.set(options)
  try:
    yield
  finally:
    _current.reset(token)


def require_iterators() -> None:
  """Declares that the code being traced uses a data set in a way that lists of batches do not support.

  Raises:
    NeedsIterators: Data sets are lists of batches.
  """
  if current().as_lists:
    raise NeedsIterators("a data set made or mapped by TFF itself")
