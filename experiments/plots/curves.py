"""One column of several runs against rounds, a line for each run."""

import pathlib
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from experiments.reports import palette
from experiments.reports.figures import RC, plain, plt
from experiments.reports.labels import COLUMN_LABELS, X_LABELS
from experiments.runs import reader


class RunCurve(NamedTuple):
  """The finite values of a run's column, and the rounds in which they were measured."""

  label: str
  rounds: np.ndarray
  values: np.ndarray


def read(text: str, column: str) -> RunCurve:
  """Reads the column of a run given as `[LABEL=]FOLDER`; the default label is the folder's name.

  Raises:
    ValueError: if the folder holds no finished run, or the run has no such column.
  """
  label, _, folder = text.rpartition("=")
  runs, problems = reader.read_all([folder])
  if problems or not runs:
    raise ValueError(problems[0] if problems else f"{folder} holds no run.")
  columns = runs[0].columns
  if column not in columns:
    present = ", ".join(name for name in columns if not name.startswith("seconds/"))
    raise ValueError(f"{folder} has no column {column}; it has {present}.")
  finite = np.isfinite(columns[column])
  return RunCurve(
    label or pathlib.Path(folder).name, columns["round"][finite], columns[column][finite]
  )


def draw(curves: Sequence[RunCurve], column: str, title: str, *, log: bool) -> plt.Figure:
  """Draws the curves; runs with the same label look the same."""
  with plt.rc_context(RC):
    figure, axes = plt.subplots(figsize=(6.6, 3.9))
    labels = list(dict.fromkeys(curve.label for curve in curves))
    for label, rounds, values in curves:
      number = labels.index(label)
      colour = palette.COLOURS[number % len(palette.COLOURS)]
      dashes = palette.DASHES[number % len(palette.DASHES)]
      axes.plot(rounds, values, label=plain(label), color=colour, linestyle=dashes)
    axes.set_xlabel(X_LABELS["rounds"])
    axes.set_ylabel(plain(COLUMN_LABELS.get(column, column)))
    axes.set_yscale("log" if log else "linear")
    if not log and all((curve.values >= 0).all() for curve in curves):
      axes.set_ylim(bottom=0)
    axes.set_title(plain(title))
    by_label = dict(zip(*reversed(axes.get_legend_handles_labels()), strict=True))
    axes.legend(by_label.values(), by_label.keys(), loc="center left", bbox_to_anchor=(1.01, 0.5),
                handlelength=3.4)  # fmt: skip
  return figure
