"""A figure for each claim, with the paper's axes, a plot for each setting and bands over seeds."""

import math
import textwrap
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from experiments.claim_trials.claim import Arm, Claim, Diagnostic, Panel, Results
from experiments.reports import figures, labels, measures, palette, result_tables

COLUMNS = 3
MANY = 7  # with more methods the legend stands beside the plot
TITLE = 44  # characters in a line of a plot's title
X_LABELS = {
  **labels.X_LABELS,
  "upload": "Bytes uploaded (all clients)",
  "flops": "FLOPs (all clients)",
}
SHOW = {
  "bytes": result_tables.show_bytes,
  "upload": result_tables.show_bytes,
  "flops": result_tables.show_flops,
}


def draw(claim: Claim, found: Results) -> plt.Figure:
  """Draws the figure of a claim."""
  plots = _plots(claim)
  count = len(plots) + len(claim.diagnostics)
  columns = 2 if count == 4 else min(COLUMNS, count)
  rows = math.ceil(count / columns)
  with plt.rc_context(figures.RC):
    figure, grid = plt.subplots(
      rows, columns, figsize=(5.6 * columns, 4.4 * rows), squeeze=False, layout="constrained"
    )
    places = list(grid.flat)
    for (what, panels), axes in zip(plots, places, strict=False):
      if what == "levels":
        _levels(axes, claim, found)
      else:
        _curves(axes, panels, what, found)
    for diagnostic, axes in zip(claim.diagnostics, places[len(plots) :], strict=False):
      _diagnostic(axes, diagnostic, found)
    for axes in places[count:]:
      axes.set_visible(False)
  return figure


def _plots(claim: Claim) -> list[tuple[str, list[Panel]]]:
  """The x axis of each plot, and the panels drawn into it."""
  plots: list[tuple[str, list[Panel]]] = []
  for panel, what in zip(claim.panels, claim.axes, strict=True):
    if what == "onto":
      plots[-1][1].append(panel)
    else:
      plots.append((what, [panel]))
  return plots


def _curves(axes: Axes, panels: list[Panel], what: str, found: Results) -> None:
  """Draws the metric against the cost; the legend names the setting of lines from other panels."""
  metric = found.metric(panels[0])
  arms = tuple(arm for panel in panels for arm in panel.arms)
  ends = []
  for place, (panel, arm) in enumerate((p, arm) for p in panels for arm in p.arms):
    runs = found.of(panel, arm.label)
    line = measures.curve(runs, metric.column)
    x = measures.spent(runs, what, line.rounds)
    if x is None or not len(x):
      continue
    mean, std = line.mean * metric.factor, line.std * metric.factor
    look = _look(arms, place)
    shown = ", ".join([arm.label, *_differences(panel, panels[0])])
    axes.plot(x, mean, markevery=0.2, markersize=5, label=figures.plain(shown), **look)
    axes.fill_between(x, mean - std, mean + std, color=look["color"], alpha=0.13, linewidth=0)
    ends.append(mean[len(mean) // 8 :])
  if metric.larger_is_better and ends:  # leave out the steep start
    low, high = min(end.min() for end in ends), max(end.max() for end in ends)
    axes.set_ylim(low - 0.05 * (high - low), high + 0.05 * (high - low))
  elif ends:
    axes.set_yscale("log")
  axes.set_xlim(left=0)
  axes.set(xlabel=X_LABELS[what], ylabel=metric.axis)
  axes.set_title(textwrap.fill(figures.plain(panels[0].setting.label), TITLE))
  if what in SHOW:
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: SHOW[what](value)))
  axes.xaxis.set_major_locator(MaxNLocator(4))
  beside: dict[str, Any] = {"loc": "center left", "bbox_to_anchor": (1, 0.5)}
  axes.legend(fontsize=9.5, handlelength=3, **(beside if len(arms) > MANY else {"loc": "best"}))


def _diagnostic(axes: Axes, diagnostic: Diagnostic, found: Results) -> None:
  """Draws a diagnostic's measured values against the rounds."""
  arms = diagnostic.panel.arms
  for place, arm in enumerate(arms):
    runs = found.of(diagnostic.panel, arm.label)
    measured = diagnostic.values(runs)
    count = min(map(len, measured))  # a run that diverged is shorter
    values = np.stack([each[:count] for each in measured])
    mean, std = values.mean(axis=0), values.std(axis=0)
    look = _look(arms, place)
    rounds = runs[0].columns["round"][np.isfinite(diagnostic.of(runs[0]))][:count]
    axes.plot(rounds, mean, markersize=5, label=figures.plain(arm.label), **look)
    axes.fill_between(rounds, mean - std, mean + std, color=look["color"], alpha=0.13, linewidth=0)
  axes.set_xlim(left=0)
  axes.set_ylim(bottom=0)
  axes.set(xlabel=X_LABELS["rounds"], ylabel=diagnostic.label)
  axes.set_title(textwrap.fill(figures.plain(diagnostic.panel.setting.label), TITLE))
  axes.legend(loc="best", fontsize=9.5, handlelength=3)


def _differences(panel: Panel, other: Panel) -> list[str]:
  """The parts of a setting's label that the other one lacks."""
  known = other.setting.label.split(", ")
  return [part for part in panel.setting.label.split(", ") if part not in known]


def _levels(axes: Axes, claim: Claim, found: Results) -> None:
  """Draws the final value by setting of each method that all settings share."""
  everywhere = set.intersection(*({arm.label for arm in panel.arms} for panel in claim.panels))
  arms = tuple(arm for arm in claim.panels[0].arms if arm.label in everywhere)
  for arm in arms:
    spreads = [found.final(panel, arm.label) for panel in claim.panels]
    mean, std = (100 * np.array([s[i] for s in spreads]) for i in (0, 1))
    look = {**_look(arms, arms.index(arm)), "marker": "o"}
    axes.errorbar(range(len(mean)), mean, std, label=figures.plain(arm.label), capsize=3, **look)
  parts = [panel.setting.label.split(", ") for panel in claim.panels]
  shared = set.intersection(*map(set, parts))  # stands in the titles of the other plots
  labels = [figures.plain(", ".join(p for p in own if p not in shared)) for own in parts]
  axes.set_xticks(range(len(labels)), labels)
  axes.set(ylabel="Final " + found.metric(claim.panels[0]).axis.lower())
  axes.set_title("Final value by setting")
  axes.legend(loc="best", fontsize=9.5, handlelength=3)


def _look(arms: tuple[Arm, ...], place: int) -> dict[str, Any]:
  """The algorithm's line style of all reports, unless two methods of the plot would look alike."""
  own = [palette.style(arm.algo) for arm in arms]
  if len({style.colour for style in own}) == len(arms):
    style = own[place]
    return {"color": style.colour, "linestyle": style.dashes, "marker": style.marker}
  series = (palette.COLOURS, palette.DASHES, palette.MARKERS)
  colour, dashes, marker = (values[place % len(values)] for values in series)
  return {"color": colour, "linestyle": dashes, "marker": marker}
