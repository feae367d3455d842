"""A run's numbers for TensorBoard, through TFF's own release manager."""

import asyncio
import pathlib
from collections.abc import Mapping
from typing import Any

import tensorflow as tf
import tensorflow_federated as tff
from tensorboard.plugins.hparams import api as hparams


class TensorBoard:
  """Writes every number of `metrics.csv`, and the hyperparameters, under `tensorboard/`."""

  def __init__(self, folder: pathlib.Path, config: Mapping[str, Any]):
    self._manager = tff.program.TensorBoardReleaseManager(str(folder))
    with tf.summary.create_file_writer(str(folder / "hyperparameters")).as_default():
      hparams.hparams(flat(config))

  def write(self, row: Mapping[str, float]) -> None:
    """A round's numbers, at the round's number."""
    values = {name: value for name, value in row.items() if name != "round"}
    asyncio.run(self._manager.release(values, key=int(row["round"])))


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
  """What of a configuration TensorBoard can tabulate: its numbers, words and hyperparameters."""
  own = {**config, **config["hyperparameters"]}
  return {k: v for k, v in own.items() if isinstance(v, bool | int | float | str)}
