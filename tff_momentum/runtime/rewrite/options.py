"""The choices that graph rewrites depend on, for the computation that is being traced."""

import contextlib
import contextvars
import dataclasses
from collections.abc import Iterator
from typing import Literal

from tff_momentum.runtime.batch_rule import BatchRule
from tff_momentum.runtime.gpu_decisions import Convolutions, DeviceKind, Recurrent

# Which hot functions XLA compiles; `xla_choice` has the rule.
CompileMode = Literal["auto", "on", "off"]


@dataclasses.dataclass(frozen=True)
class RewriteOptions:
  """How the graphs of a computation are rewritten.

  Attributes:
    batches: The rule of the `ClientBatches` that reach the graph (see `batch_reader`); None if data sets do.
    compile: Which hot functions XLA compiles (see `xla_choice`).
    device: The kind of device on which clients run.
    convolutions: Who runs convolutions on GPUs.
    recurrent: Who runs recurrent layers on GPUs.
  """

  batches: BatchRule | None = None
  compile: CompileMode = "auto"
  device: DeviceKind = "CPU"
  convolutions: Convolutions = "cudnn"
  recurrent: Recurrent = "cudnn"


class NeedsIterators(Exception):
  """The computation uses its data in a way that only data sets support."""


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
  """Declares that the code being traced uses its data in a way that only data sets support.

  Raises:
    NeedsIterators: The data are `ClientBatches`.
  """
  if current().batches is not None:
    raise NeedsIterators("a data set made or mapped by TFF itself")
