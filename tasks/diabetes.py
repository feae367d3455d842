"""The progression of diabetes in 442 patients from ten measurements; scikit-learn ships the data."""

from sklearn import datasets

from tasks.builders.regression_table import regression_task
from tasks.task import Task


def load(
  *, seed: int, num_clients: int = 20, similarity: float = 0.0, model: str = "linear"
) -> Task:
  """Loads the task.

  Args:
    seed: seed of the split and the initial weights.
    num_clients: number of clients that share the 354 training patients.
    similarity: percentage of IID patients; at 0, a client holds neighbours in the order of the target.
    model: linear or mlp.

  Returns:
    The task.

  Raises:
    ValueError: an option is invalid.
  """
  features, target = datasets.load_diabetes(return_X_y=True)
  return regression_task(
    "diabetes",
    features,
    target,
    seed=seed,
    num_clients=num_clients,
    similarity=similarity,
    model=model,
    data="embedded",
    client_learning_rate=0.01,
  )
