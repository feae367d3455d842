"""Counts and plots the labels that clients hold."""

import pathlib
import time
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

if TYPE_CHECKING:
  import tensorflow as tf

  from tasks.task import Task
  from tff_momentum.runtime import ClientBatches

SHOWN_CLIENTS = 30


class Labels(NamedTuple):
  """The labels of some clients.

  Attributes:
    sizes: the number of examples of each client.
    table: the number of times that each client (row) has each label (column).
  """

  sizes: np.ndarray
  table: np.ndarray

  @property
  def skew(self) -> float:
    """How much clients differ from the mean of all: 0 if all are alike, 1 if they share no label."""
    shares = self.table / np.maximum(self.table.sum(1, keepdims=True), 1)
    overall = self.table.sum(0) / max(self.table.sum(), 1)
    return float(np.abs(shares - overall).sum(1).mean() / 2)


def count(task: "Task", seconds: float = float("inf")) -> Labels:
  """Reads some clients, always the same ones.

  Args:
    task: the task.
    seconds: stop after this much time, with fewer clients.
  """
  some = np.sort(np.random.default_rng(0).permutation(len(task.clients))[:SHOWN_CLIENTS])
  found, deadline = [], time.monotonic() + seconds
  for i in some:
    data = task.dataset(task.clients[int(i)], np.zeros(2, np.int32), 64)
    found.append(_of_client(data.resolve() if hasattr(data, "resolve") else data))
    if time.monotonic() > deadline:
      break
  width = max(len(counts) for _, counts in found)
  table = np.array([np.pad(counts, (0, width - len(counts))) for _, counts in found])
  return Labels(np.array([size for size, _ in found]), table)


def plot(task: "Task", labels: Labels, path: str | pathlib.Path) -> None:
  """Plots the labels as one bar per client; the twenty most frequent labels have colours of their own."""
  import matplotlib

  matplotlib.use("Agg")
  from matplotlib import pyplot

  table = labels.table
  most = np.argsort(-table.sum(0), kind="stable")[:20]
  columns = [table[:, k] for k in most]
  names = [str(k) for k in most]
  if table.shape[1] > len(most):
    columns.append(table.sum(1) - np.sum(columns, axis=0))
    names.append("others")
  figure, axes = pyplot.subplots(figsize=(9, 4.5), layout="constrained")
  bottom, colours = np.zeros(len(table)), pyplot.get_cmap("tab20")
  for k, (name, column) in enumerate(zip(names, columns, strict=True)):
    colour = "lightgrey" if name == "others" else colours(k % 20)
    axes.bar(range(len(table)), column, bottom=bottom, width=0.9, label=name, color=colour)
    bottom += column
  axes.set(
    xlabel="client", ylabel="labels", title=f"{task.name} ({task.data} data): labels by client"
  )
  axes.legend(title="label", ncols=2, fontsize="small", bbox_to_anchor=(1.01, 1), loc="upper left")
  figure.savefig(path, dpi=120)
  pyplot.close(figure)


def _of_client(dataset: "ClientBatches | tf.data.Dataset") -> tuple[int, np.ndarray]:
  """The number of examples and the count of each label: classes, tokens, tags, or bins of a target."""
  labels = np.concatenate([y.numpy() for _, y in dataset])
  if labels.dtype.kind in "iu":
    return len(labels), np.bincount(labels[labels > 0] if labels.ndim > 1 else labels)
  if labels.shape[-1] > 1:
    tags = np.isin(labels, (0, 1)).all()
    return len(labels), labels.sum(0) if tags else np.zeros(
      0
    )  # an image to reconstruct is not a label
  return len(labels), np.histogram(labels, bins=10, range=(-2.5, 2.5))[0]
