"""Evaluates the model on a sample of clients at regular rounds: `--client_eval_period`."""

import numpy as np

from experiments.cli.run_config import RunConfig
from experiments.runs.columns import CLIENT_EVAL, EVAL
from experiments.runs.metric import named
from experiments.training.client_split import SplitTask
from tff_momentum.diagnostics.client_evaluation import (
  STATISTICS,
  ClientEvaluator,
  EvaluatedClient,
  statistics,
)
from tff_momentum.processes.process import FederatedProcess
from tff_momentum.simulation import seeds
from tff_momentum.simulation.loop import StoredRound

PERSONALISED = "personalised_"


class ClientEvaluation:
  """The columns `client_eval/...`; `loop.rounds` calls it after every round.

  The sample of clients is drawn once for a run. The personalised model takes plain SGD steps at the task's
  own learning rate, whatever the algorithm, so that algorithms are comparable.

  Attributes:
    columns: the names of all values that a row may get, in order.
  """

  def __init__(self, config: RunConfig, process: FederatedProcess, split: SplitTask):
    """Compiles the evaluation; reads no data yet.

    Args:
      config: the run's configuration.
      process: the run's process.
      split: the clients, with their held-out examples.
    """
    options, task = config.client_eval, split.task
    assert options.period is not None, "--client_eval_period turns this on"
    self._process, self._split, self._config = process, split, config
    self._own_models = config.algo == "local_only"
    self._evaluate = ClientEvaluator(
      task.model,
      steps=options.steps,
      learning_rate=task.defaults.client_learning_rate,
      own_models=self._own_models,
    )
    count = min(options.clients, len(task.clients))
    chosen = seeds.generator(config.seed, seeds.CLIENT_EVAL).choice(
      len(task.clients), count, replace=False
    )
    self.clients = [task.clients[int(i)] for i in np.sort(chosen)]
    names = [n for n in task.model.finalize(task.model.empty_tally()) if n != "num_examples"]
    names += [PERSONALISED + name for name in names] if options.steps else []
    self.columns = [f"{CLIENT_EVAL}{name}_{each}" for name in names for each in STATISTICS]

  def __call__(self, stored: StoredRound) -> dict[str, float]:
    """The columns of a round at the period, and of the last round; none of the others."""
    period, done = self._config.client_eval.period or 1, stored.round + 1
    return self.measure(stored) if done % period == 0 or done == self._config.total_rounds else {}

  def measure(self, stored: StoredRound) -> dict[str, float]:
    """Evaluates the model after a round."""
    task = self._split.task
    own = seeds.client_seeds(self._config.seed, seeds.CLIENT_EVAL, stored.round, self.clients)
    clients = [
      EvaluatedClient(
        seed,
        task.dataset(client, seed, self._config.client_batch_size),
        self._split.held_out(client),
      )
      for client, seed in zip(self.clients, own, strict=True)
    ]
    if self._own_models:
      found = self._evaluate(stored.store.load(self.clients), clients)
    else:
      found = self._evaluate(self._process.weights(stored.state), clients)
    values = {**found.before, **{PERSONALISED + name: v for name, v in found.after.items()}}
    row = {}
    for name, of_clients in values.items():
      larger = named(EVAL + name).larger_is_better
      for statistic, value in statistics(of_clients, larger_is_better=larger).items():
        row[f"{CLIENT_EVAL}{name}_{statistic}"] = value
    return row
