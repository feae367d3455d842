"""Heat maps of the final metric over one or two hyperparameters."""

from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import matplotlib.pyplot as plt
import numpy as np

from experiments.reports import measures, result_tables
from experiments.reports.comparison import (
  Configuration,
  Method,
  Setting,
  Value,
  by_task,
  sorted_values,
  varying,
)
from experiments.reports.figures import RC, Figure, plain, tick


class _Point(NamedTuple):
  """A configuration, with the values of its setting among its coordinates."""

  values: Mapping[str, Value]
  configuration: Configuration
  setting: Setting


def heat_maps(settings: Sequence[Setting]) -> Iterator[Figure]:
  """One heat map per method over all settings if they vary in at most two names, else one per setting."""
  for same_task in by_task(settings):
    for label in dict.fromkeys(m.label for s in same_task for m in s.methods):
      points = [p for s in same_task for p in _points(s, s.method(label))]
      if len(varying([p.values for p in points])) > 2:
        for setting in same_task:
          yield from _heat_map(label, list(_points(setting, setting.method(label))))
      else:
        yield from _heat_map(label, points)


def _points(setting: Setting, method: Method | None) -> Iterator[_Point]:
  for configuration in method.configurations if method else ():
    yield _Point({**setting.values, **configuration.tuned}, configuration, setting)


def _heat_map(label: str, points: Sequence[_Point]) -> Iterator[Figure]:
  names = varying([point.values for point in points])
  # A single value of the setting, such as alpha, is drawn as a trend of all methods.
  if not 1 <= len(names) <= 2 or (len(names) == 1 and names[0] in points[0].setting.values):
    return
  setting = points[0].setting
  # A single name is drawn as one row.
  y_name, x_name = names if len(names) == 2 else ("", names[0])
  xs = sorted_values([point.values.get(x_name) for point in points])
  ys = sorted_values([point.values.get(y_name) for point in points])
  table = np.full((len(ys), len(xs)), np.nan)
  texts = np.full(table.shape, "", dtype=object)
  for values, configuration, where in points:
    at = (ys.index(values.get(y_name)), xs.index(values.get(x_name)))
    texts[at] = result_tables.final_text(configuration, where).replace(" ± ", "\n± ")
    if not configuration.diverged:
      table[at] = measures.final_spread(configuration.runs, where.metric).mean * where.metric.factor
  title = f"Final {setting.metric.name} of {label}"
  over = " and ".join(names)
  caption = f"Over {over}. Light is better; ×: diverged; empty: not run. {result_tables.FINAL}"
  yield Figure(
    f"heat_{label}", title, caption,
    f"{title} over {over} on {setting.values['task']}",
    _draw(f"{label}: {_where(setting, names)}", table, texts, (x_name, xs), (y_name, ys), setting.metric),
  )  # fmt: skip


def _where(setting: Setting, names: Sequence[str]) -> str:
  shared = not set(names) & set(setting.values)
  return ", ".join([setting.label if shared else setting.task, *setting.notes])


def _draw(title, table, texts, x_axis, y_axis, metric) -> plt.Figure:
  (x_name, xs), (y_name, ys) = x_axis, y_axis
  with plt.rc_context({**RC, "axes.grid": False}):
    # At least as wide as the figures beside it on the page, which scales all to the same width.
    width, height = max(6.4, 2.4 + 1.05 * len(xs)), max(2.6, 1.5 + 0.72 * len(ys))
    figure, axes = plt.subplots(figsize=(width, height))
    colours = plt.get_cmap("cividis" if metric.larger_is_better else "cividis_r")
    image = axes.imshow(table, cmap=colours.with_extremes(bad="#EEEEEE"), aspect="auto")
    for (i, j), text in np.ndenumerate(texts):
      value = table[i, j]
      dark = not np.isnan(value) and sum(image.cmap(image.norm(value))[:3]) < 1.5
      axes.text(
        j, i, text, ha="center", va="center", fontsize=10.5, color="white" if dark else "black"
      )
    axes.set_xticks(range(len(xs)), [tick(x) for x in xs])
    axes.set_xlabel(plain(x_name))
    axes.set_yticks(range(len(ys)) if y_name else [], [tick(y) for y in ys] if y_name else [])
    axes.set_ylabel(plain(y_name))
    axes.spines[:].set_visible(False)
    axes.set_title(plain(title))
    figure.colorbar(image, ax=axes, label=plain(metric.axis), pad=0.03)
  return figure
