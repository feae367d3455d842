"""Keeps the weights of the best evaluation so far, for the export at the end of a run."""

import os
import pathlib
from collections.abc import Callable

import numpy as np

from experiments.runs.columns import EVAL
from experiments.runs.metric import main_metric
from tff_momentum.models.model import Weights
from tff_momentum.processes.process import ProcessState
from tff_momentum.simulation.loop import Round
from tff_momentum.simulation.trainer import Hook


class BestModel(Hook):
  """Keeps the weights with the best value of the task's main metric.

  They are in a file of their own. A run that resumes from before its best round trains the same rounds again
  and arrives at the same weights, so the file need not be part of a checkpoint.
  """

  def __init__(self, path: pathlib.Path, weights: Callable[[ProcessState], Weights]):
    """Takes the file to keep the weights in, and the function from a state to its weights."""
    path.parent.mkdir(parents=True, exist_ok=True)
    self._path, self._weights_of = path, weights
    self._score = -np.inf
    self._unsaved: list[np.ndarray] | None = None
    if path.exists():
      with np.load(path, allow_pickle=False) as file:
        self._score = float(file["score"])

  def after_round(self, finished: Round) -> None:
    """Remembers the weights of a round whose evaluation is better than all before."""
    metric = main_metric([name for name in finished.row if name.startswith(EVAL)])
    if metric is None:
      return
    score = metric.sign * finished.row[metric.column]
    if score > self._score:
      self._score = score
      self._unsaved = [np.asarray(w) for w in self._weights_of(finished.state)]

  def save(self, finished: Round) -> None:
    """Writes the file if the best weights have changed."""
    if self._unsaved is not None:
      arrays = {f"weight_{i:03d}": w for i, w in enumerate(self._unsaved)}
      part = self._path.with_suffix(".part.npz")
      np.savez(part, score=np.float64(self._score), **arrays)
      os.replace(part, self._path)
      self._unsaved = None

  def weights(self) -> list[np.ndarray]:
    """The best weights that were saved; empty if no evaluation was ever finite."""
    if not self._path.exists():
      return []
    with np.load(self._path, allow_pickle=False) as file:
      return [file[name] for name in sorted(file.files) if name.startswith("weight_")]
