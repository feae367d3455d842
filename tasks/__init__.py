"""The tasks by name. This module imports nothing heavy: `--list` and a wrong name must answer at once."""

import importlib
from typing import Any, NamedTuple


class Entry(NamedTuple):
  """Where a task is made, and what it is in one line."""

  module: str
  summary: str


TASKS: dict[str, Entry] = {
  "digits": Entry("tasks.digits", "8×8 handwritten digits (carried along), Dirichlet label split"),
  "quadratic": Entry("tasks.quadratic", "quadratic clients with known curvature, G, δ and optimum"),
  "diabetes": Entry("tasks.diabetes", "linear regression on 442 patients (carried along)"),
}


def loader(name: str) -> Any:
  """The function `load(*, seed, ...)` of a task; its keyword arguments are the task's options."""
  return importlib.import_module(TASKS[name].module).load
