"""The final metric of all methods against the one value in which a task's settings differ, such as alpha."""

from collections.abc import Iterator, Sequence

import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes

from experiments.reports import measures, palette, result_tables
from experiments.reports.comparison import Setting, Value, by_task, sorted_values, varying
from experiments.reports.figures import RC, Figure, plain, tick


def trends(settings: Sequence[Setting]) -> Iterator[Figure]:
  """One figure per task whose settings differ in a single value."""
  for same_task in by_task(settings):
    names = varying([setting.values for setting in same_task])
    if len(names) == 1:
      yield _trend(same_task, names[0])


def _trend(settings: Sequence[Setting], name: str) -> Figure:
  metric, task = settings[0].metric, settings[0].task
  values = sorted_values([setting.values.get(name) for setting in settings])
  with plt.rc_context(RC):
    figure, axes = plt.subplots(figsize=(6.4, 4.0))
    for label in dict.fromkeys(method.label for s in settings for method in s.methods):
      _line(axes, label, settings, name, values)
    axes.set_xticks(range(len(values)), [tick(value) for value in values])
    axes.set_xlabel(plain(name))
    axes.set_ylabel(plain(f"Final {metric.axis[0].lower()}{metric.axis[1:]}"))
    axes.set_title(plain(", ".join([task, *settings[0].notes])))
    if axes.get_legend_handles_labels()[0]:  # not if all methods diverged
      axes.legend(loc="center left", bbox_to_anchor=(1.01, 0.5), handlelength=3.4)
  title = f"Final {metric.name} against {name}"
  caption = (
    "Mean and one standard deviation over seeds, without diverged methods. " + result_tables.FINAL
  )
  return Figure(f"{task}_final_{name}", title, caption, f"{title} on {task}", figure)


def _line(
  axes: Axes, label: str, settings: Sequence[Setting], name: str, values: list[Value]
) -> None:
  """Draws the final values of a method in the order of the axis."""
  factor = settings[0].metric.factor
  points = []
  for setting in settings:
    method = setting.method(label)
    if method and not method.best.diverged:
      mean, std = measures.final_spread(method.best.runs, setting.metric)
      points.append(
        (values.index(setting.values.get(name)), mean * factor, np.nan_to_num(std) * factor)
      )
      colour, dashes, marker = palette.style(method.algo, method.variant)
  if points:
    x, means, stds = np.array(sorted(points)).T
    axes.errorbar(x, means, stds, color=colour, linestyle=dashes, marker=marker or "o", capsize=3,
                  label=plain(label))  # fmt: skip
