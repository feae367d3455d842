"""This library as run.py uses it: the round loop reads the data, keeps client states and writes metrics."""

import contextlib
import itertools
import pathlib
import tempfile

import numpy as np

from experiments.benchmarks import competitors, work_items
from experiments.runs.columns import header
from experiments.runs.folder import RunFolder
from experiments.training.hooks.metrics_csv import MetricsCsv
from experiments.training.hooks.tensorboard import TensorBoard
from tasks.data.batches import ArrayClients, ordered_batches
from tasks.task import Defaults, Task
from tff_momentum.processes.process import ProcessState
from tff_momentum.runtime import set_execution_context
from tff_momentum.simulation import loop

_FOREVER = 10**9


class ThroughRun:
  """One work item as a task, trained by the round loop with the hooks of run.py, without evaluation.

  The clients, examples and batch size are those of the item; the order of a client's examples is shuffled in
  every round, as in every run. So the weights move a little differently than with the other competitors.
  """

  def __init__(self, item: work_items.Item, runtime: str, algorithm: str = competitors.ALGORITHM):
    set_execution_context(runtime)
    task = _task(item)
    self._process = competitors.build_process(item, algorithm, task.model)
    self.initial = list(task.model.initial_weights)
    self._state: ProcessState | None = None
    self._rounds = loop.rounds(
      self._process,
      task,
      total_rounds=_FOREVER,
      clients_per_round=item.clients,
      client_batch_size=item.batch,
      rounds_per_eval=0,
    )
    self._folders = contextlib.ExitStack()
    root = self._folders.enter_context(tempfile.TemporaryDirectory())
    config = {"experiment_name": item.name, "hyperparameters": {}}
    folder = RunFolder.open(root, config)
    metrics = self._process.next.type_signature.result.metrics.member.train._asdict()
    folder.start_metrics(header(list(metrics)), 0)
    self._hooks = (MetricsCsv(folder), TensorBoard(pathlib.Path(root) / "tensorboard", config))

  def round(self) -> None:
    """Runs one round and its hooks."""
    for finished in itertools.islice(self._rounds, 1):
      for hook in self._hooks:
        hook.after_round(finished)
      self._state = finished.state

  def weights(self) -> list[np.ndarray]:
    """The model's weights."""
    return self.initial if self._state is None else list(self._process.weights(self._state))


def _task(item: work_items.Item) -> Task:
  """The item as a task of arrays in memory."""
  xs, ys = zip(*(work_items.examples(item, i) for i in range(item.clients)), strict=True)
  arrays = {"x": np.concatenate(xs), "y": np.concatenate(ys)}
  parts = np.split(np.arange(item.clients * item.examples), item.clients)
  clients = ArrayClients.of(arrays, parts)
  return clients.task(
    item.name,
    competitors.build_model(item),
    lambda size: ordered_batches(arrays, size),
    Defaults(1, item.clients, item.batch, work_items.CLIENT_LEARNING_RATE),
    details={},
    data="synthetic",
  )
