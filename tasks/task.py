"""What a task is: clients with data, a model, and what to evaluate it on."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tff_momentum.models.model import Model


@dataclasses.dataclass(frozen=True)
class Defaults:
  """What a run uses where no flag says otherwise: the paper's setting, or one that works."""

  total_rounds: int
  clients_per_round: int
  client_batch_size: int
  client_learning_rate: float
  client_epochs_per_round: int = 1


@dataclasses.dataclass(frozen=True)
class Task:
  """A federated learning task.

  Attributes:
    name: as `--task` has it.
    model: the model, with the initial weights of the run's seed.
    clients: the ids of the training clients; asking for its length or one of them is cheap.
    dataset: (client id, seed int32[2], batch size) -> the client's batches in a shuffled order that
      depends on nothing but these three; iterated again, it is shuffled anew, by the same seed.
    evaluation: batch size -> the test data in batches.
    total_examples: what all training clients hold together.
    defaults: of the run's flags.
    data: "embedded", "real" or "synthetic": where the examples come from.
    details: what `config.json` should remember of the task (options as resolved, sizes).
  """

  name: str
  model: Model
  clients: Sequence[str]
  dataset: Callable[[str, np.ndarray, int], tf.data.Dataset]
  evaluation: Callable[[int], tf.data.Dataset]
  total_examples: int
  defaults: Defaults
  data: str
  details: Mapping[str, Any] = dataclasses.field(default_factory=dict)
