"""Writes TensorBoard's files: the numbers of metrics.csv, the table of HParams, a plot of clients' labels.

HParams lists the scalars of the TensorBoard run that holds the hyperparameters. They are therefore in a run
of their own, `hyperparameters`, together with the few numbers that compare runs: the final value
(`experiments/runs/final_value.py`) and the last evaluation of every test metric.
"""

import pathlib
import tempfile
from collections.abc import Mapping

import numpy as np
import tensorflow as tf
from tensorboard.compat.proto import summary_pb2
from tensorboard.plugins.hparams import api as hparams
from tensorboard.plugins.scalar import metadata as scalars

from experiments.runs import reader
from experiments.runs.final_value import final_value
from experiments.training import label_plot
from tasks.task import Task
from tff_momentum.simulation.loop import Round
from tff_momentum.simulation.trainer import Hook

_LABEL_SECONDS = 0.5  # spent on reading clients for the plot of their labels


class TensorBoard(Hook):
  """Writes a round's numbers when it ends.

  All numbers of a round are one record: an operation for each would take longer than a small model's round.
  """

  def __init__(
    self,
    folder: pathlib.Path,
    config: Mapping[str, object],
    task: Task | None = None,
    metrics_csv: pathlib.Path | None = None,
  ):
    """Starts the files.

    Args:
      folder: the folder of TensorBoard's files.
      config: the values of config.json, for the table of hyperparameters.
      task: the task whose clients' labels to plot after the first round.
      metrics_csv: the run's metrics.csv, which has the rounds before a resume too. The metrics of HParams
        are computed from it; without it there are none.
    """
    self._folder, self._task, self._metrics_csv = folder, task, metrics_csv
    self._writer = tf.summary.create_file_writer(str(folder))
    self._metadata = scalars.create_summary_metadata(display_name=None, description=None)
    self._compared = tf.summary.create_file_writer(str(folder / "hyperparameters"))
    with self._compared.as_default():
      hparams.hparams(_tabular(config))

  def after_round(self, finished: Round) -> None:
    """Writes the round's numbers, and after the very first round the plot of labels."""
    record = summary_pb2.Summary()
    for name, value in finished.row.items():
      if name != "round":
        one = record.value.add(tag=name, metadata=self._metadata)
        one.tensor.dtype = tf.float32.as_datatype_enum
        one.tensor.float_val.append(value)
    with self._writer.as_default():
      # NumPy's number, because TensorFlow caches a tensor for every Python number and never frees it.
      tf.summary.experimental.write_raw_pb(
        record.SerializeToString(), step=np.int64(finished.row["round"])
      )
    if finished.number == 0 and self._task is not None:
      self._plot_labels(self._task)

  def save(self, finished: Round) -> None:
    """Writes the metrics of HParams: the final value so far, and the last evaluation."""
    if self._metrics_csv is None:
      return
    values = compared_values(reader.read_metrics(self._metrics_csv))
    with self._compared.as_default():
      for name, value in values.items():
        tf.summary.scalar(name, np.float32(value), step=np.int64(finished.row["round"]))

  def end(self) -> None:
    """Closes the files."""
    self._writer.close()
    self._compared.close()

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


def compared_values(columns: reader.Columns) -> dict[str, float]:
  """The metrics of HParams: the final value and the last evaluation of every evaluated column.

  >>> import numpy as np
  >>> compared_values({"round": np.array([1, 2, 3, 4]), "eval/loss": np.array([4.0, 3.0, 2.0, 1.0])})
  {'final eval/loss': 1.5, 'last eval/loss': 1.0}
  """
  values = {}
  for column in sorted(reader.evaluated(columns)):
    measured = columns[column][~np.isnan(columns[column])]
    final = final_value(columns, column)
    assert final is not None, "an evaluated column has a final value"
    values[f"final {column}"] = final
    values[f"last {column}"] = float(measured[-1])
  return values


def _tabular(config: Mapping[str, object]) -> dict[str, bool | int | float | str]:
  """The values that TensorBoard can tabulate: numbers and texts, hyperparameters included."""
  tuned = config["hyperparameters"]
  values = {**config, **tuned} if isinstance(tuned, Mapping) else config
  return {k: v for k, v in values.items() if isinstance(v, bool | int | float | str)}
