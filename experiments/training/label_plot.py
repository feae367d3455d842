"""Which labels clients hold: counted for some clients, and drawn."""

import pathlib
import time
from typing import Any, NamedTuple

import numpy as np

SHOWN_CLIENTS = 30


class Labels(NamedTuple):
  """What some clients hold: how many examples each, and how often each label, a row for a client."""

  sizes: np.ndarray
  table: np.ndarray

  @property
  def skew(self) -> float:
    """How far clients are from the mean of all: 0, all alike; 1, nothing in common."""
    shares = self.table / np.maximum(self.table.sum(1, keepdims=True), 1)
    overall = self.table.sum(0) / max(self.table.sum(), 1)
    return float(np.abs(shares - overall).sum(1).mean() / 2)


def count(task: Any, seconds: float = float("inf")) -> Labels:
  """Reads some clients, always the same ones; fewer of them if that takes longer than so many seconds."""
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


def plot(task: Any, labels: Labels, path: str | pathlib.Path) -> None:
  """Draws the label distribution, a bar for each client; the twenty most frequent labels in colour."""
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


def _of_client(dataset: Any) -> tuple[int, np.ndarray]:
  """How many examples, and how often each label: classes, tokens, tags, or tenths of a target."""
  labels = np.concatenate([y.numpy() for _, y in dataset])
  if labels.dtype.kind in "iu":
    return len(labels), np.bincount(labels[labels > 0] if labels.ndim > 1 else labels)
  if labels.shape[-1] > 1:
    tags = np.isin(labels, (0, 1)).all()
    return len(labels), labels.sum(0) if tags else np.zeros(0)  # a picture to rebuild is no label
  return len(labels), np.histogram(labels, bins=10, range=(-2.5, 2.5))[0]
