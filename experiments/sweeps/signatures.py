"""The hyperparameters of algorithms and the options of tasks, without importing TensorFlow."""

from collections.abc import Mapping

import tasks
from experiments.cli.flags import STAND_INS
from tff_momentum.registry import ALGORITHMS, REQUIRED


def of_algorithm(name: str) -> Mapping[str, bool]:
  """The hyperparameters that users set, and whether each is required."""
  defaults = ALGORITHMS[name].hyperparameters
  return {
    parameter: default is REQUIRED
    for parameter, default in defaults.items()
    if parameter not in STAND_INS
  }


def of_task(name: str) -> Mapping[str, bool]:
  """The options of a task, and whether each is required: none is, since all have defaults."""
  return dict.fromkeys(tasks.info(name).options, False)


def made_on_the_spot(task: str) -> dict[str, str]:
  """The options that make a task's data synthetic: none for a task with embedded data."""
  return {"data": "synthetic"} if "data" in tasks.info(task).options else {}
