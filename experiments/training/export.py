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
from keras.src.saving.legacy import saving_utils

from tff_momentum.models.model import Model


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
    _save(keras, part / "saved_model")
  _replace(folder, part)


def export_both(folder: pathlib.Path, model: Model, last: Any, best: Any, about: Any) -> None:
  """Exports a run's `model_last`, and its `model_best` if it has one: often the same."""
  export(folder / "model_last", model, last, about)
  if not best:
    return
  if all(np.array_equal(x, y) for x, y in zip(last, best, strict=True)):
    part = folder / "model_best.part"
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(folder / "model_last", part)
    _replace(folder / "model_best", part)
  else:
    export(folder / "model_best", model, best, about)


def _save(keras: "tf.keras.Model", path: pathlib.Path) -> None:
  """Writes a SavedModel. Keras's own layers need not be traced one by one, which takes most of the time:
  Keras makes them again from their configuration; TensorFlow Serving asks for the signature alone."""
  if all(_is_stock(layer) for layer in keras._flatten_layers(include_self=False)):
    signature = saving_utils.trace_model_call(keras)
    keras.save(path, save_format="tf", save_traces=False, signatures=signature)
  else:
    keras.save(path, save_format="tf")


def _is_stock(layer: Any) -> bool:
  return type(layer).__module__.startswith("keras.") and not isinstance(
    layer, tf.keras.layers.Lambda
  )


def _replace(folder: pathlib.Path, part: pathlib.Path) -> None:
  shutil.rmtree(folder, ignore_errors=True)
  os.replace(part, folder)
