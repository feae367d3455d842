"""Figures of virtual time: the staleness of updates, and the idle time of the server."""

import re
from collections.abc import Sequence

import matplotlib.pyplot as plt
import numpy as np

from experiments.reports import palette
from experiments.reports.comparison import Method, Setting
from experiments.reports.figures import RC, Figure, alt, plain, put_title
from experiments.runs.reader import Run

IDLE = "virtual/idle_seconds"
_BAR = re.compile(r"staleness/(\d+)(?:-(\d+))?$")


def staleness_bars(setting: Setting) -> Figure | None:
  """The distribution of the updates' staleness; None if no run was asynchronous."""
  methods = [m for m in setting.methods if any(_bins(run) for run in m.best.runs)]
  if not methods:
    return None
  bins = sorted({b for m in methods for run in m.best.runs for b in _bins(run)})
  while len(bins) > 1 and not any(_shares(m.best.runs, bins)[-1] for m in methods):
    bins.pop()  # leave out empty bins at the end
  with plt.rc_context(RC):
    figure, axes = plt.subplots(figsize=(6.8, 3.8))
    width = 0.8 / len(methods)
    for number, method in enumerate(methods):
      places = np.arange(len(bins)) + (number - (len(methods) - 1) / 2) * width
      colour = palette.style(method.algo, method.variant).colour
      heights = 100 * _shares(method.best.runs, bins)
      axes.bar(places, heights, 0.92 * width, color=colour, label=plain(method.label))
    axes.set_xticks(range(len(bins)), [_bin_text(*each) for each in bins])
    axes.set_xlabel("Staleness: server steps since the client started")
    axes.set_ylabel("Updates (%)")
    axes.grid(axis="x", visible=False)
    put_title(axes, setting)
    axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5))
  title = "Staleness of the updates"
  dropped = [f"{method.label} {_dropped(method):.1%}" for method in methods if _dropped(method)]
  caption = f"Dropped as too old: {', '.join(dropped)}." if dropped else "No update was dropped."
  return Figure("staleness", title, caption, alt(title, setting), figure)


def idle_bars(setting: Setting) -> Figure | None:
  """The mean time that the server waits for updates before a step; None without virtual time."""
  methods = [m for m in setting.methods if all(IDLE in run.columns for run in m.best.runs)]
  if not methods:
    return None
  with plt.rc_context(RC):
    figure, axes = plt.subplots(figsize=(6.4, 1.4 + 0.42 * len(methods)))
    waits = [[float(np.mean(run.columns[IDLE])) for run in m.best.runs] for m in methods]
    for row, (method, values) in enumerate(zip(methods, waits, strict=True)):
      error = np.std(values, ddof=1) if len(values) > 1 else None
      axes.barh(row, np.mean(values), xerr=error, height=0.62, ecolor="#555555",
                color=palette.style(method.algo, method.variant).colour)  # fmt: skip
      axes.annotate(f"{np.mean(values):.3g} s", (np.mean(values) + (error or 0), row), (6, 0),
                    textcoords="offset points", va="center", fontsize=10.5)  # fmt: skip
    axes.set_yticks(range(len(methods)), [plain(m.label) for m in methods])
    axes.invert_yaxis()
    axes.margins(x=0.16)
    axes.set_xlim(left=0)
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("Virtual seconds that the server waits before each step")
    put_title(axes, setting)
  title = "Idle time of the server"
  return Figure("idle", title, "Mean over all steps.", alt(title, setting), figure)


def _bins(run: Run) -> list[tuple[int, int]]:
  found = (_BAR.fullmatch(name) for name in run.columns)
  return [(int(match[1]), int(match[2] or match[1])) for match in found if match]


def _bin_text(low: int, high: int) -> str:
  return f"{low}" if low == high else f"{low}–{high}"


def _shares(runs: Sequence[Run], bins: Sequence[tuple[int, int]]) -> np.ndarray:
  counts = np.zeros(len(bins))
  for run in runs:
    for place, (low, high) in enumerate(bins):
      name = f"staleness/{low}" + f"-{high}" * (high > low)
      counts[place] += np.nansum(run.columns.get(name, 0.0))
  return counts / max(counts.sum(), 1)


def _dropped(method: Method) -> float:
  """The fraction of all updates that were dropped as too old."""
  dropped = sum(float(np.nansum(run.columns.get("clients/stale", 0.0))) for run in method.best.runs)
  taken = sum(float(np.nansum(run.columns.get("clients", 0.0))) for run in method.best.runs)
  return dropped / max(dropped + taken, 1.0)
