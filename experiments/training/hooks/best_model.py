"""Keeps the weights of the best evaluation so far, for the export at the end of a run."""

import os
import pathlib
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from experiments.runs.metric import tuning_metric
from tff_momentum.models.model import Weights
from tff_momentum.processes.process import ProcessState
from tff_momentum.simulation.loop import Round
from tff_momentum.simulation.trainer import Hook


class BestWeights(NamedTuple):
  """The weights with the best evaluation, and the round after which the model had them, from 1."""

  round: int
  weights: list[np.ndarray]


class BestModel(Hook):
  """Keeps the weights with the best value of the metric that tunes the task's runs.

  Each save writes the best weights so far to a file that is named after their round. A run that resumes from
  a checkpoint takes the file of the latest round up to the checkpoint and trains the later rounds again: the
  best model is always the best of the rounds in metrics.csv. Files that no checkpoint needs are deleted.
  """

  def __init__(
    self, checkpoints: pathlib.Path, weights: Callable[[ProcessState], Weights], rounds: int = 0
  ):
    """Reads the best score up to the checkpoint from which the run resumes.

    Args:
      checkpoints: the folder of the run's checkpoints; the files are in `best` there.
      weights: state -> the model's weights.
      rounds: the number of rounds before the checkpoint.
    """
    self._checkpoints, self._folder = checkpoints, checkpoints / "best"
    self._weights_of = weights
    self._folder.mkdir(parents=True, exist_ok=True)
    self._score = -np.inf
    self._unsaved: BestWeights | None = None
    for path in self._files():
      if int(path.stem) > rounds:
        path.unlink()
    for path in self._files()[-1:]:
      with np.load(path, allow_pickle=False) as file:
        self._score = float(file["score"])

  def after_round(self, finished: Round) -> None:
    """Remembers the weights of a round whose evaluation is better than all before."""
    metric = tuning_metric(finished.row)
    if metric is None:
      return
    score = metric.sign * finished.row[metric.column]
    if score > self._score:
      weights = [np.asarray(w) for w in self._weights_of(finished.state)]
      self._score, self._unsaved = score, BestWeights(finished.number + 1, weights)

  def save(self, finished: Round) -> None:
    """Writes a file if the best weights have changed, and deletes those that no checkpoint needs."""
    if self._unsaved is None:
      return
    arrays = {f"weight_{i:03d}": w for i, w in enumerate(self._unsaved.weights)}
    path = self._folder / f"{self._unsaved.round:08d}.npz"
    part = path.with_suffix(".part.npz")
    np.savez(part, score=np.float64(self._score), **arrays)
    os.replace(part, path)
    self._unsaved = None
    oldest = min(
      (int(p.name) for p in self._checkpoints.glob("*") if p.name.isdecimal()), default=0
    )
    for unneeded in [path for path in self._files() if int(path.stem) <= oldest][:-1]:
      unneeded.unlink()

  def best(self) -> BestWeights | None:
    """The best weights that were saved; None if no evaluation was ever finite."""
    for path in self._files()[-1:]:
      with np.load(path, allow_pickle=False) as file:
        names = sorted(name for name in file.files if name.startswith("weight_"))
        return BestWeights(int(path.stem), [file[name] for name in names])
    return None

  def _files(self) -> list[pathlib.Path]:
    """The files, by round."""
    return sorted(path for path in self._folder.glob("*.npz") if path.stem.isdecimal())
