"""Simulated federated training.

* `loop`: the round loop, `run` and `rounds`.
* `trainer`: rounds with hooks, for what happens beside training.
* `participation`: which clients take part in which round.
* `clock`: virtual time, on synchronous and asynchronous servers.
* `distributions`: how local steps, speeds and availability vary between clients.
* `client_store`: what clients keep between their rounds, in memory or on disk.
* `checkpoints`: saving a run and resuming it.
* `evaluation`: loss and metrics on the server's test data.
* `seeds`: every random number as a function of (seed, round, client, purpose).

Importing this package does not load TensorFlow; its modules are loaded on first use.
"""

import importlib
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
  from tff_momentum.simulation import (
    checkpoints,
    client_store,
    clock,
    distributions,
    evaluation,
    loop,
    participation,
    seeds,
    trainer,
  )

__all__ = [
  "checkpoints",
  "client_store",
  "clock",
  "distributions",
  "evaluation",
  "loop",
  "participation",
  "seeds",
  "trainer",
]


def __getattr__(name: str) -> ModuleType:
  if name in __all__:
    return importlib.import_module(f"{__name__}.{name}")
  raise AttributeError(f"module {__name__!r} has no attribute {name!r}")


def __dir__() -> list[str]:
  return sorted({*globals(), *__all__})
