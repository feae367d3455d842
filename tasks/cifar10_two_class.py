"""CIFAR-10 from TFDS with at most two classes per client (FedGLOMO, appendix E)."""

from tasks.builders.partitioned_images import CIFAR10, ImageOptions, partitioned_images_task
from tasks.task import Defaults, Task
from tff_momentum import validation

MODELS = ("mlp600", "lenet", "resnet20")


def load(
  *,
  seed: int,
  num_clients: int = 50,
  partition: str = "classes:2",
  model: str = "mlp600",
  data: str = "real",
  data_dir: str | None = None,
  max_examples_per_client: int | None = None,
) -> Task:
  """Loads the task.

  Args:
    seed: seed of the split, the initial weights and the synthetic data.
    num_clients: number of clients; all have the same size.
    partition: classes:2, or iid for FedGLOMO's homogeneous case.
    model: mlp600 (two hidden layers of 600 units), lenet or resnet20.
    data: real or synthetic.
    data_dir: the folder that contains `tfds/cifar10`.
    max_examples_per_client: upper bound on a client's examples.

  Returns:
    The task.

  Raises:
    ValueError: an option is invalid, or (`DataError`) the data is missing or damaged.
  """
  validation.one_of("model", model, MODELS)
  return partitioned_images_task(
    "cifar10_two_class",
    CIFAR10,
    ImageOptions(
      seed=seed,
      num_clients=num_clients,
      partition=partition,
      model=model,
      data=data,
      data_dir=data_dir,
      max_examples_per_client=max_examples_per_client,
    ),
    # FedGLOMO: 25 of 50 clients take 10 steps of 256 examples, 2.6 epochs of 1,000 images.
    Defaults(
      total_rounds=200,
      clients_per_round=25,
      client_batch_size=256,
      client_learning_rate=0.05,
      client_epochs_per_round=2,
    ),
  )
