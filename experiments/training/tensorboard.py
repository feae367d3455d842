"""What TensorBoard shows of a run: its numbers, through TFF's own release manager, and more."""

import asyncio
import pathlib
import tempfile
from collections.abc import Mapping
from typing import Any

import numpy as np
import tensorflow as tf
import tensorflow_federated as tff
from tensorboard.plugins.hparams import api as hparams

from experiments.training import label_plot

_LABEL_SECONDS = 0.5  # spent on reading clients for the picture of their labels


class TensorBoard:
  """Writes every number of `metrics.csv`, the hyperparameters and the clients' labels."""

  def __init__(self, folder: pathlib.Path, config: Mapping[str, Any]):
    self._folder = folder
    self._manager = tff.program.TensorBoardReleaseManager(str(folder))
    with tf.summary.create_file_writer(str(folder / "hyperparameters")).as_default():
      hparams.hparams(flat(config))

  def write(self, row: Mapping[str, float]) -> None:
    """A round's numbers, at the round's number."""
    # As NumPy's: of every Python number that it is ever given TensorFlow keeps a tensor, for good.
    values = {name: np.float32(value) for name, value in row.items() if name != "round"}
    asyncio.run(self._manager.release(values, key=np.int64(row["round"])))

  def draw_labels(self, task: Any) -> None:
    """The labels that some clients hold, as a picture; nothing if the task has none."""
    found = label_plot.count(task, seconds=_LABEL_SECONDS)
    if not found.table.size:
      return
    with tempfile.TemporaryDirectory() as folder:
      path = pathlib.Path(folder) / "labels.png"
      label_plot.plot(task, found, path)
      image = tf.io.decode_png(path.read_bytes(), channels=3)
    with tf.summary.create_file_writer(str(self._folder / "labels")).as_default():
      tf.summary.image("labels by client", image[None], step=0)


class Profile:
  """A trace of some rounds for TensorBoard's profiler: the second that is run, and those after it.

  The first one builds and optimises graphs, which would hide what a round costs.
  """

  def __init__(self, folder: pathlib.Path, rounds: int | None):
    """Traces nothing if `rounds` is None."""
    self._folder, self._rounds = folder, rounds
    self._seen, self._tracing = 0, False

  def round_ended(self) -> None:
    """Starts or ends the trace when it is time to."""
    if self._rounds is None:
      return
    self._seen += 1
    if self._seen == 1:
      tf.profiler.experimental.start(str(self._folder))
      self._tracing = True
    elif self._seen == 1 + self._rounds:
      self.close()

  def close(self) -> None:
    """Ends the trace, if one is going on."""
    if self._tracing:
      tf.profiler.experimental.stop()
      self._tracing = False


def flat(config: Mapping[str, Any]) -> dict[str, Any]:
  """What of a configuration TensorBoard can tabulate: its numbers, words and hyperparameters."""
  own = {**config, **config["hyperparameters"]}
  return {k: v for k, v in own.items() if isinstance(v, bool | int | float | str)}
