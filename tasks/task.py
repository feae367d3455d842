"""What a task is: clients with data, a model, and the data to evaluate it on."""

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from tff_momentum.models.model import Model
from tff_momentum.runtime import ClientBatches


@dataclasses.dataclass(frozen=True)
class Defaults:
  """The values that a run uses for flags that are not given: the paper's setting, or one that works."""

  total_rounds: int
  clients_per_round: int
  client_batch_size: int
  client_learning_rate: float
  client_epochs_per_round: int = 1


@dataclasses.dataclass(frozen=True, repr=False)
class Task:
  """A federated learning task.

  A task knows nothing about algorithms; any algorithm trains any task. A task of one's own is a function
  `load(*, seed, ...) -> Task`. Data that fits in memory needs few lines: `tasks.data.partitions`
  decides which client holds which example, and `ArrayClients` turns the arrays into batches. Larger data
  brings its own `dataset` function, which must be deterministic: a resumed run asks for the same client with
  the same seed.
  Add the task to `tasks.TASKS` to run it with `--task=NAME`.

  Attributes:
    name: the name that `--task` takes.
    model: the model, with initial weights that depend on the run's seed.
    clients: the ids of the training clients. Its length and a single element must be cheap to compute.
    dataset: (client id, seed int32[2], batch size) -> the client's batches, in a shuffled order that depends
      on these three arguments only: `ClientBatches`, which a client reads by index, or a `tf.data.Dataset`,
      where each iteration is one epoch with an order of its own.
    evaluation: batch size -> the test data in batches.
    total_examples: the number of examples of all training clients together.
    defaults: the defaults of the run's flags.
    data: where the examples come from: "embedded", "real" or "synthetic".
    details: what `config.json` records about the task (options as resolved, sizes).
    client_evaluation: (client id, batch size) -> a training client's examples, prepared like the test data
      and in a fixed order, for `--tune_on=validation`. None if `dataset` does no random augmentation: its
      examples are then used.

  Two clients that fit a line, one to each half of it:

  >>> from tasks.data.batches import ArrayClients, ordered_batches
  >>> from tff_momentum.models.keras import from_keras
  >>> x = np.linspace(-1, 1, 40, dtype=np.float32)[:, None]
  >>> y = 3 * x + 1
  >>> model = from_keras(
  ...   lambda: tf.keras.Sequential([tf.keras.layers.Dense(1, input_shape=(1,))]),
  ...   loss=lambda labels, predictions: tf.reduce_mean(tf.square(labels - predictions)),
  ...   batch_spec=(tf.TensorSpec([None, 1]), tf.TensorSpec([None, 1])),
  ...   seed=0,
  ... )
  >>> clients = ArrayClients.of((x, y), [np.arange(20), np.arange(20, 40)])
  >>> Task(
  ...   name="line",
  ...   model=model,
  ...   clients=clients.ids,
  ...   dataset=clients.dataset,
  ...   evaluation=lambda batch_size: ordered_batches((x, y), batch_size),
  ...   total_examples=clients.total_examples,
  ...   defaults=Defaults(
  ...     total_rounds=10, clients_per_round=2, client_batch_size=5, client_learning_rate=0.1
  ...   ),
  ...   data="synthetic",
  ... )
  Task('line', synthetic data, 2 clients, 40 examples, model of 2 parameters)
  """

  name: str
  model: Model
  clients: Sequence[str]
  dataset: Callable[[str, np.ndarray, int], ClientBatches | tf.data.Dataset]
  evaluation: Callable[[int], tf.data.Dataset]
  total_examples: int
  defaults: Defaults
  data: str
  details: Mapping[str, Any] = dataclasses.field(default_factory=dict)
  client_evaluation: Callable[[str, int], tf.data.Dataset] | None = None

  def __repr__(self) -> str:
    return (
      f"Task({self.name!r}, {self.data} data, {len(self.clients):,} clients, "
      f"{self.total_examples:,} examples, model of {self.model.num_parameters:,} parameters)"
    )
