"""EMNIST balanced (47 classes) from TFDS with s % similar clients (SCAFFOLD).

By default, 20 of 400 clients train logistic regression in each round. The split itself is
`tasks.data.partitions.sorted_similarity`.
"""

from tasks.builders.partitioned_images import (
  EMNIST_BALANCED,
  ImageOptions,
  partitioned_images_task,
)
from tasks.task import Defaults, Task
from tff_momentum import validation


def load(
  *,
  seed: int,
  num_clients: int = 400,
  similarity: float = 0.0,
  model: str = "logistic",
  data: str = "real",
  data_dir: str | None = None,
  max_examples_per_client: int | None = None,
) -> Task:
  """Loads the task.

  Args:
    seed: seed of the split, the initial weights and the synthetic data.
    num_clients: number of clients.
    similarity: percentage of each client's examples that are IID; the rest are sorted by label.
    model: logistic or cnn.
    data: real or synthetic.
    data_dir: the folder that contains `tfds/emnist`.
    max_examples_per_client: upper bound on a client's examples.

  Returns:
    The task.

  Raises:
    ValueError: an option is invalid, or (`DataError`) the data is missing or damaged.
  """
  validation.one_of("model", model, ("logistic", "cnn"))
  validation.number("similarity", similarity, at_least=0, at_most=100)
  return partitioned_images_task(
    "emnist_sorted",
    EMNIST_BALANCED,
    ImageOptions(
      seed=seed,
      num_clients=num_clients,
      partition=f"similarity:{similarity}",
      model=model,
      data=data,
      data_dir=data_dir,
      max_examples_per_client=max_examples_per_client,
    ),
    Defaults(
      total_rounds=200, clients_per_round=20, client_batch_size=56, client_learning_rate=0.1
    ),
  )
