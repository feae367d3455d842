"""The trained models of a run: the best so far, kept while it runs; best and last, exported at its end.

model = tf.keras.models.load_model("runs/NAME/model_last/saved_model")     # needs no tff_momentum
"""

import json
import os
import pathlib
import shutil
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf

from tff_momentum.gradients import Model


class Best:
  """The weights with the best evaluation so far: the highest accuracy, or else the lowest loss.

  Kept in a file of its own. A run that is resumed from before the best round comes to the same
  weights again, since its rounds can be repeated, so the file need not be part of a checkpoint.
  """

  def __init__(self, path: pathlib.Path):
    path.parent.mkdir(parents=True, exist_ok=True)
    self._path = path
    self._score = -np.inf
    self._unwritten: list[np.ndarray] | None = None
    if path.exists():
      with np.load(path, allow_pickle=False) as file:
        self._score = float(file["score"])

  def see(self, row: Mapping[str, float], weights: Any) -> None:
    """Remembers the weights if no evaluation was better."""
    if "eval/loss" not in row:
      return
    score = row["eval/accuracy"] if "eval/accuracy" in row else -row["eval/loss"]
    if score > self._score:
      self._score, self._unwritten = score, [np.asarray(w) for w in weights]

  def write(self) -> None:
    """Writes the file, if there is anything new."""
    if self._unwritten is not None:
      arrays = {f"weight_{i:03d}": w for i, w in enumerate(self._unwritten)}
      part = self._path.with_suffix(".part.npz")
      np.savez(part, score=np.float64(self._score), **arrays)
      os.replace(part, self._path)
      self._unwritten = None

  def weights(self) -> list[np.ndarray]:
    """The best weights; none if nothing finite was ever evaluated."""
    if not self._path.exists():
      return []
    with np.load(self._path, allow_pickle=False) as file:
      return [file[name] for name in sorted(file.files) if name.startswith("weight_")]


def export(folder: pathlib.Path, model: Model, weights: Any, about: Mapping[str, Any]) -> None:
  """Writes a model's weights, and for a Keras model also what Keras loads by itself."""
  part = folder.with_name(folder.name + ".part")
  shutil.rmtree(part, ignore_errors=True)
  part.mkdir(parents=True)
  arrays = {f"weight_{i:03d}": np.asarray(w) for i, w in enumerate(weights)}
  np.savez(part / "weights.npz", **arrays)
  (part / "about.json").write_text(json.dumps(dict(about), indent=2, default=str) + "\n")
  if model.keras is not None:
    keras = model.keras()
    for variable, value in zip(keras.trainable_weights, weights, strict=True):
      variable.assign(value)
    tf.get_logger().setLevel("ERROR")  # which would warn that a model without an optimizer has none
    keras.save_weights(part / "keras.weights.h5")
    keras.save(part / "saved_model", save_format="tf")
  shutil.rmtree(folder, ignore_errors=True)
  os.replace(part, folder)
