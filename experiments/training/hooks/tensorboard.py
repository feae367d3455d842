"""Writes TensorBoard's files: the numbers of metrics.csv, the hyperparameters, a plot of clients' labels."""

import asyncio
import pathlib
import tempfile
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from tensorboard.plugins.hparams import api as hparams

from experiments.training import label_plot
from tasks.task import Task
from tff_momentum.simulation.loop import Round
from tff_momentum.simulation.trainer import Hook

_LABEL_SECONDS = 0.5  # spent on reading clients for the plot of their labels


class TensorBoard(Hook):
  """Writes a round's numbers when it ends, through TFF's own release manager."""

  def __init__(self, folder: pathlib.Path, config: Mapping[str, object], task: Task | None = None):
    """Starts the files.

    Args:
      folder: the folder of TensorBoard's files.
      config: the values of config.json, for the table of hyperparameters.
      task: the task whose clients' labels to plot after the first round.
    """
    self._folder, self._task = folder, task
    self._manager = tff.program.TensorBoardReleaseManager(str(folder))
    with tf.summary.create_file_writer(str(folder / "hyperparameters")).as_default():
      hparams.hparams(_tabular(config))

  def after_round(self, finished: Round) -> None:
    """Writes the round's numbers, and after the very first round the plot of labels."""
    # NumPy scalars, because TensorFlow caches a tensor for every Python number and never frees it.
    row = finished.row
    values = {name: np.float32(value) for name, value in row.items() if name != "round"}
    asyncio.run(self._manager.release(values, key=np.int64(row["round"])))
    if finished.number == 0 and self._task is not None:
      self._plot_labels(self._task)

  def _plot_labels(self, task: Task) -> None:
    """Writes a plot of the labels that some clients hold; nothing if the task has no labels."""
    found = label_plot.count(task, seconds=_LABEL_SECONDS)
    if not found.table.size:
      return
    with tempfile.TemporaryDirectory() as folder:
      path = pathlib.Path(folder) / "labels.png"
      label_plot.plot(task, found, path)
      image = tf.io.decode_png(path.read_bytes(), channels=3)
    with tf.summary.create_file_writer(str(self._folder / "labels")).as_default():
      tf.summary.image("labels by client", image[None], step=0)


def _tabular(config: Mapping[str, object]) -> dict[str, bool | int | float | str]:
  """The values that TensorBoard can tabulate: numbers and texts, hyperparameters included."""
  tuned = config["hyperparameters"]
  values = {**config, **tuned} if isinstance(tuned, Mapping) else config
  return {k: v for k, v in values.items() if isinstance(v, bool | int | float | str)}
