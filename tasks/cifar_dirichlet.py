"""CIFAR-10 and CIFAR-100 from TFDS with a Dirichlet label split (GHBM, appendix C.2).

Clients have equal sizes; the split itself is `tasks.data.partitions.dirichlet`. Training images are cropped
at random (4 pixels of padding) and flipped, and all images are standardised per channel.
"""

from tasks.builders.partitioned_images import (
  CIFAR10,
  CIFAR100,
  ImageOptions,
  partitioned_images_task,
)
from tasks.task import Defaults, Task
from tff_momentum import validation

_IMAGES = {"cifar10_dirichlet": CIFAR10, "cifar100_dirichlet": CIFAR100}
# Rates of plain local SGD. GHBM trains LeNet centrally at 0.01 with momentum 0.9, which multiplies a constant
# gradient by ten; its grid for clients is 0.1, 0.05 and 0.01 (Table 6).
_LEARNING_RATES = {"lenet": 0.05, "lenet5": 0.05, "resnet20": 0.1, "vgg11": 0.01}


def load(
  name: str,
  *,
  seed: int,
  num_clients: int = 100,
  alpha: float = 0.0,
  model: str = "lenet",
  data: str = "real",
  data_dir: str | None = None,
  max_examples_per_client: int | None = None,
) -> Task:
  """Loads the task.

  Args:
    name: cifar10_dirichlet or cifar100_dirichlet.
    seed: seed of the split, the initial weights and the synthetic data.
    num_clients: number of clients; all have the same size.
    alpha: concentration of the Dirichlet distribution; 0 gives each client one class, 10000 is IID.
    model: lenet, lenet5, resnet20 or vgg11; the deep models use group normalisation.
    data: real or synthetic.
    data_dir: the folder that contains `tfds/cifar10` or `tfds/cifar100`.
    max_examples_per_client: upper bound on a client's examples.

  Returns:
    The task.

  Raises:
    ValueError: an option is invalid, or (`DataError`) the data is missing or damaged.
  """
  validation.one_of("model", model, _LEARNING_RATES)
  return partitioned_images_task(
    name,
    _IMAGES[name],
    ImageOptions(
      seed=seed,
      num_clients=num_clients,
      partition=f"dirichlet:{alpha}",
      model=model,
      data=data,
      data_dir=data_dir,
      max_examples_per_client=max_examples_per_client,
      padding=4,
    ),
    Defaults(
      total_rounds=1000,
      clients_per_round=10,
      client_batch_size=64,
      client_learning_rate=_LEARNING_RATES[model],
    ),
  )
