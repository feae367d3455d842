"""Where TFF computations run: in this process, on a Ray cluster, or in TFF's own worker.

Importing this package imports neither TensorFlow nor TFF: the names below are imported when they are first
used.
"""

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
  from tff_momentum.runtime.async_context import AsyncContext
  from tff_momentum.runtime.batch_path import reads_by_index
  from tff_momentum.runtime.client_batches import ClientBatches, Examples
  from tff_momentum.runtime.devices import configure_threads
  from tff_momentum.runtime.errors import client_labels
  from tff_momentum.runtime.execution import (
    create_async_context,
    create_inprocess_context,
    set_execution_context,
  )
  from tff_momentum.runtime.references import DataReference, DataSource, provide, source
  from tff_momentum.runtime.tff_worker import create_worker_context

__all__ = [
  "AsyncContext",
  "ClientBatches",
  "DataReference",
  "DataSource",
  "Examples",
  "client_labels",
  "configure_threads",
  "create_async_context",
  "create_inprocess_context",
  "create_worker_context",
  "provide",
  "reads_by_index",
  "set_execution_context",
  "source",
]

_DEFINED_IN = {
  "AsyncContext": "async_context",
  "ClientBatches": "client_batches",
  "DataReference": "references",
  "DataSource": "references",
  "Examples": "client_batches",
  "client_labels": "errors",
  "configure_threads": "devices",
  "create_async_context": "execution",
  "create_inprocess_context": "execution",
  "create_worker_context": "tff_worker",
  "provide": "references",
  "reads_by_index": "batch_path",
  "set_execution_context": "execution",
  "source": "references",
}


def __getattr__(name: str) -> Any:
  if name in _DEFINED_IN:
    return getattr(importlib.import_module(f"{__name__}.{_DEFINED_IN[name]}"), name)
  raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
  return sorted({*globals(), *__all__})
