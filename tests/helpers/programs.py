"""What a small `tff.program` is made of: clients that take turns, and a release manager that remembers."""

import asyncio
import contextlib
import datetime
import pathlib
from collections.abc import Callable, Coroutine
from typing import Any

import tensorflow_federated as tff


class Turns(tff.program.FederatedDataSource):
  """Hands out clients in turn."""

  def __init__(self, datasets, federated_type: tff.FederatedType):
    self._datasets = datasets
    self._type = federated_type

  @property
  def federated_type(self) -> tff.FederatedType:
    return self._type

  def iterator(self) -> "TurnsIterator":
    return TurnsIterator(self._datasets, self._type)


class TurnsIterator(tff.program.FederatedDataSourceIterator):
  """What it saves is one number, the next client; `data` is not saved."""

  data: list = []  # noqa: RUF012 (the same for all, because `from_bytes` gets only the number)

  def __init__(self, datasets, federated_type: tff.FederatedType, start: int = 0):
    type(self).data = [datasets, federated_type]
    self._next = start

  @classmethod
  def from_bytes(cls, data: bytes) -> "TurnsIterator":
    return cls(*cls.data, int(data))

  def to_bytes(self) -> bytes:
    return str(self._next).encode()

  @property
  def federated_type(self) -> tff.FederatedType:
    return self.data[1]

  def select(self, k=None):
    datasets = self.data[0]
    chosen = [datasets[i % len(datasets)] for i in range(self._next, self._next + k)]
    self._next += k
    return chosen

  def __deepcopy__(self, memo) -> "TurnsIterator":
    return type(self)(*self.data, self._next)


class Memory(tff.program.ReleaseManager):
  """Keeps what is released, by key."""

  def __init__(self):
    self.released = {}

  async def release(self, value, key):
    self.released[key] = await tff.program.materialize_value(value)


def run(context: tff.framework.AsyncExecutionContext, program: Callable[[], Coroutine]) -> Any:
  """Runs a program whose computations are executed by `context`."""
  with tff.framework.get_context_stack().install(tff.program.NativeFederatedContext(context)):
    return run_coroutine(program)


def run_coroutine(program: Callable[[], Coroutine]) -> Any:
  """Does what `asyncio.run` does, but leaves the event loop that `tff.simulation` uses."""
  with contextlib.closing(asyncio.new_event_loop()) as loop:
    return loop.run_until_complete(program())


def train(
  context: tff.framework.AsyncExecutionContext,
  process: tff.learning.templates.LearningProcess,
  source: tff.program.FederatedDataSource,
  folder: pathlib.Path,
  rounds: int,
  evaluation: tff.learning.templates.LearningProcess | None = None,
) -> dict[str, Memory]:
  """Runs `tff.learning.programs.train_model`, which resumes from `folder`; returns what it released."""
  memories = {name: Memory() for name in ("models", "metrics", "evaluations")}

  def state_manager(name: str) -> tff.program.FileProgramStateManager:
    return tff.program.FileProgramStateManager(str(folder / name))

  async def program() -> None:
    manager = None
    if evaluation is not None:
      manager = tff.learning.programs.EvaluationManager(
        data_source=source,
        aggregated_metrics_manager=memories["evaluations"],
        create_state_manager_fn=state_manager,
        create_process_fn=lambda name: (evaluation, None),
        cohort_size=2,
        duration=datetime.timedelta(0),
      )
    await tff.learning.programs.train_model(
      train_process=process,
      train_data_source=source,
      train_per_round_clients=2,
      train_total_rounds=rounds,
      program_state_manager=state_manager("train"),
      model_output_manager=memories["models"],
      train_metrics_manager=memories["metrics"],
      evaluation_manager=manager,
      evaluation_periodicity=2,
    )

  run(context, program)
  return memories
