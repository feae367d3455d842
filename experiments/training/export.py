"""Exports the trained models of a run.

model = tf.keras.models.load_model("runs/NAME/model_last/saved_model")     # needs no tff_momentum
"""

import json
import os
import pathlib
import shutil
from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
import tensorflow as tf
from keras.src.saving.legacy import saving_utils
from numpy.typing import ArrayLike

from tff_momentum.models.model import Model


def export(
  folder: pathlib.Path, model: Model, weights: Sequence[ArrayLike], about: Mapping[str, object]
) -> None:
  """Writes a model's weights, and for a Keras model also the files that Keras itself can load.

  Args:
    folder: the folder to write; an existing one is replaced.
    model: the model.
    weights: its weights.
    about: the values for about.json.
  """
  part = folder.with_name(folder.name + ".part")
  shutil.rmtree(part, ignore_errors=True)
  part.mkdir(parents=True)
  arrays = {f"weight_{i:03d}": np.asarray(w) for i, w in enumerate(weights)}
  np.savez(part / "weights.npz", **arrays)
  _write_about(part, about)
  if model.keras is not None:
    keras = model.keras()
    for variable, value in zip(keras.trainable_weights, weights, strict=True):
      variable.assign(value)
    tf.get_logger().setLevel(
      "ERROR"
    )  # Keras warns that a model without an optimizer has no optimizer
    keras.save_weights(part / "keras.weights.h5")
    _save(keras, part / "saved_model")
  _replace(folder, part)


class ExportedModel(NamedTuple):
  """A model to export: its weights, and the values for its about.json."""

  weights: Sequence[ArrayLike]
  about: Mapping[str, object]


def export_both(
  folder: pathlib.Path, model: Model, last: ExportedModel, best: ExportedModel | None
) -> None:
  """Exports a run's `model_last`, and its `model_best` if there is one; often their weights are the same.

  Args:
    folder: the run's folder.
    model: the model.
    last: the model after the last round.
    best: the model with the best evaluation; None if there is none.
  """
  export(folder / "model_last", model, *last)
  if best is None:
    shutil.rmtree(folder / "model_best", ignore_errors=True)
  elif all(np.array_equal(x, y) for x, y in zip(last.weights, best.weights, strict=True)):
    part = folder / "model_best.part"
    shutil.rmtree(part, ignore_errors=True)
    shutil.copytree(folder / "model_last", part)
    _write_about(part, best.about)
    _replace(folder / "model_best", part)
  else:
    export(folder / "model_best", model, *best)


def _write_about(folder: pathlib.Path, about: Mapping[str, object]) -> None:
  text = json.dumps(dict(about), indent=2, default=str) + "\n"
  (folder / "about.json").write_text(text, encoding="utf-8")


def _save(keras: "tf.keras.Model", path: pathlib.Path) -> None:
  """Writes a SavedModel.

  Tracing every layer takes most of the time and is only needed for custom layers: Keras rebuilds its own
  layers from their configuration, and TensorFlow Serving needs only the signature of the model.
  """
  if all(_is_stock(layer) for layer in keras._flatten_layers(include_self=False)):
    signature = saving_utils.trace_model_call(keras)
    keras.save(path, save_format="tf", save_traces=False, signatures=signature)
  else:
    keras.save(path, save_format="tf")


def _is_stock(layer: "tf.keras.layers.Layer") -> bool:
  """Whether a layer is one of Keras's own."""
  return type(layer).__module__.startswith("keras.") and not isinstance(
    layer, tf.keras.layers.Lambda
  )


def _replace(folder: pathlib.Path, part: pathlib.Path) -> None:
  shutil.rmtree(folder, ignore_errors=True)
  os.replace(part, folder)
