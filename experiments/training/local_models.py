"""The evaluation of `--algo=local_only`: every client has a model of its own, and the server has none."""

import numpy as np

from experiments.cli.run_config import RunConfig
from tasks.task import Task
from tff_momentum.models.model import Weights
from tff_momentum.simulation import seeds
from tff_momentum.simulation.evaluation import ColumnEvaluator
from tff_momentum.simulation.loop import StoredRound


class LocalModels:
  """The mean over clients of their own models' values on the test data.

  The clients are as many as in a cohort, drawn once for a run. A client that has not yet been in a cohort has
  the initial model.
  """

  def __init__(self, config: RunConfig, task: Task, evaluate: ColumnEvaluator):
    """Draws the clients.

    Args:
      config: the run's configuration.
      task: the clients.
      evaluate: weights -> values by column.
    """
    rng = seeds.generator(config.seed, seeds.CLIENT_EVAL)
    count = min(config.clients_per_round, len(task.clients))
    chosen = np.sort(rng.choice(len(task.clients), count, replace=False))
    self.clients = [task.clients[int(i)] for i in chosen]
    self._evaluate = evaluate

  def __call__(self, stored: StoredRound) -> dict[str, float]:
    """The mean values after a round."""
    models: list[Weights] = stored.store.load(self.clients)
    values = [self._evaluate(model) for model in models]
    return {name: float(np.mean([each[name] for each in values])) for name in values[0]}
