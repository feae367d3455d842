"""`tfds:NAME`: any TFDS image classification data set whose images have one size."""

import tasks
from tasks.builders.partitioned_images import (
  MODELS,
  ImageOptions,
  ImageSet,
  partitioned_images_task,
)
from tasks.task import Defaults, Task
from tff_momentum import validation


def load(
  name: str,
  *,
  seed: int,
  num_clients: int = 100,
  partition: str = "dirichlet:0.3",
  model: str = "cnn",
  data: str = "real",
  data_dir: str | None = None,
  max_examples_per_client: int | None = None,
) -> Task:
  """Loads the task.

  Args:
    name: `tfds:` and the data set's name in TFDS.
    seed: seed of the split, the initial weights and the synthetic data.
    num_clients: number of clients.
    partition: iid, dirichlet:ALPHA, classes:PER_CLIENT or similarity:PERCENT.
    model: cnn, lenet, resnet20, vgg11, mlp300, mlp600 or logistic.
    data: real, or synthetic (28×28 grey images of ten classes, whatever the data set).
    data_dir: the folder that contains `tfds/NAME`.
    max_examples_per_client: upper bound on a client's examples.

  Returns:
    The task.

  Raises:
    ValueError: an option is invalid, or (`DataError`) the data is missing or damaged.
  """
  validation.one_of("model", model, MODELS)
  return partitioned_images_task(
    name,
    ImageSet(name.removeprefix(tasks.TFDS_PREFIX), 10, (28, 28, 1)),
    ImageOptions(
      seed=seed,
      num_clients=num_clients,
      partition=partition,
      model=model,
      data=data,
      data_dir=data_dir,
      max_examples_per_client=max_examples_per_client,
    ),
    Defaults(
      total_rounds=200, clients_per_round=10, client_batch_size=20, client_learning_rate=0.05
    ),
  )
