"""Weights & Biases: the rows of metrics.csv, with the values of config.json.

Its own environment variables choose the account, the project and the mode: WANDB_PROJECT (default:
tff_momentum), WANDB_MODE=offline and so on. The files are in the folder `wandb` of the run. A resumed run
continues the tracked run of the same id.
"""

import os
import pathlib
from collections.abc import Mapping

import wandb

from experiments.runs import tracked_runs
from experiments.training.hooks.tracker import Tracker
from tff_momentum.simulation.loop import Round

PROJECT = "tff_momentum"
_EXIT_CODES = {"finished": 0, "diverged": 3, "stopped": 130}  # those of run.py


class WandbTracker(Tracker):
  """Writes to one run of Weights & Biases."""

  title = "Weights & Biases"

  def __init__(
    self, folder: pathlib.Path, config: Mapping[str, object], total_rounds: int, *, quiet: bool
  ):
    """Starts or continues the tracked run.

    Args:
      folder: the run's folder.
      config: the values of config.json.
      total_rounds: the number of all rounds.
      quiet: whether Weights & Biases prints nothing.

    Raises:
      ValueError: Weights & Biases cannot start, for example without an account.
    """
    super().__init__(total_rounds)
    noted = tracked_runs.read(folder, "wandb") or {"id": wandb.util.generate_id()}
    offline = os.environ.get("WANDB_MODE") in ("offline", "dryrun")
    try:
      self._run = wandb.init(
        project=os.environ.get("WANDB_PROJECT", PROJECT),
        name=folder.name,
        id=noted["id"],
        # Offline, the parts of a run meet when they are uploaded, by their id.
        resume=None if offline else "allow",
        dir=str(folder),
        config=dict(config),
        settings=wandb.Settings(console="off", silent=quiet),
      )
    except Exception as error:
      raise ValueError(
        f"Weights & Biases does not start: {' '.join(str(error).split())} Run `wandb login`, or set "
        "WANDB_MODE=offline to write files only."
      ) from None
    tracked_runs.write(folder, "wandb", noted)
    self._run.define_metric("*", step_metric="round")

  def send(self, finished: Round) -> None:
    """Sends the row; a round that ran again after a resume has the same values."""
    self._run.log(dict(finished.row))

  def close(self, outcome: str) -> None:
    """Ends the tracked run with the exit code of run.py."""
    self._run.finish(exit_code=_EXIT_CODES[outcome])
