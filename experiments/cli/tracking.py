"""`--track`: the trackers by name, and whether their packages are installed, without importing them."""

import importlib.util
from collections.abc import Sequence

from experiments.cli.errors import UserError, suggestions

# Tracker -> its name in sentences, and what to install for it.
TRACKERS = {
  "wandb": ("Weights & Biases", "wandb==0.19.11"),
  "mlflow": ("MLflow", "mlflow-skinny==3.5.1"),
}


def check(names: Sequence[str]) -> tuple[str, ...]:
  """Returns the trackers of a command line; raises `UserError` for unknown and missing ones."""
  for name in names:
    if name not in TRACKERS:
      raise UserError(
        f"--track must name {' or '.join(TRACKERS)}, or both as in wandb,mlflow; found {name!r}"
        f"{suggestions(name, TRACKERS)}."
      )
    if importlib.util.find_spec(name) is None:
      title, package = TRACKERS[name]
      raise UserError(
        f"--track={name} needs the package of {title}, which is not installed; pip install {package} (the "
        f"extra `{name}` of this project)."
      )
  return tuple(dict.fromkeys(names))
