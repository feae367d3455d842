"""Figures of one setting: curves with bands over seeds, and bars. Needs no display."""

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import matplotlib as mpl

mpl.use("Agg")
import matplotlib.pyplot as plt
import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, MaxNLocator

from experiments.reports import measures, palette, result_tables
from experiments.reports.comparison import Method, Setting, Value
from experiments.reports.labels import COLUMN_LABELS, X_LABELS
from experiments.runs.final_value import DESCRIPTION

RC: Any = {
  "font.size": 12, "axes.titlesize": 12.5, "axes.titleweight": "bold", "axes.titlelocation": "left",
  "axes.labelsize": 12, "axes.spines.top": False, "axes.spines.right": False, "axes.grid": True,
  "grid.color": "#DDDDDD", "grid.linewidth": 0.7, "axes.axisbelow": True, "legend.frameon": False,
  "legend.fontsize": 11, "lines.linewidth": 1.8, "lines.solid_capstyle": "round", "svg.hashsalt": "report",
  "figure.dpi": 100, "savefig.dpi": 200, "savefig.bbox": "tight", "savefig.pad_inches": 0.08,
}  # fmt: skip
LONG_LEGEND = 16  # a legend with more methods is put below the plot
SMOOTH = 40  # a longer curve is smoothed to about this many independent points


@dataclasses.dataclass(frozen=True)
class Figure:
  """A drawn figure; `name` is its file name without suffix, `alt` its alternative text."""

  name: str
  title: str
  caption: str
  alt: str
  drawn: plt.Figure


def plain(text: str) -> str:
  """A text from disk, escaped against matplotlib's markup."""
  shown = "".join(c if c.isprintable() else " " for c in text)  # no font has control characters
  line = " ".join(shown.split()).replace("$", r"\$")
  return f" {line}" if line.startswith("_") else line


def tick(value: Value) -> str:
  """The tick label of a hyperparameter's value; None stands for the default."""
  return "default" if value is None else plain(str(value))


def metric_curves(setting: Setting, what: str) -> Figure | None:
  """The main metric against rounds, bytes, seconds or virtual time; None if that was not measured."""
  drawn = _curves(
    setting, setting.metric.column, setting.metric.axis, what, setting.metric.factor, target=True
  )
  if drawn is None:
    return None
  title = f"{setting.metric.name.capitalize()} against {_axis_word(what)}"
  seeds = max(len(m.best.runs) for m in setting.methods)
  caption = f"Mean and one standard deviation over {seeds} seeds." if seeds > 1 else "One seed."
  if result_tables.baseline(setting):
    caption += f" The thin line is FedAvg’s final value: {DESCRIPTION}."
  if what == "seconds":
    caption += (
      " The first round includes the time to build the computation; evaluation is not included."
    )
  return Figure(
    f"{setting.metric.name.replace(' ', '_')}_{what}", title, caption, alt(title, setting), drawn
  )


def column_curves(setting: Setting, column: str) -> Figure | None:
  """Any other column against rounds, as a moving average, because these columns are noisy."""
  label = COLUMN_LABELS.get(column, column.replace("_", " "))
  longest = max(len(measures.curve(m.best.runs, column).rounds) for m in setting.methods)
  window = max(1, longest // SMOOTH)
  drawn = _curves(setting, column, label, "rounds", 1.0, target=False, window=window)
  title = f"{label} against rounds"
  name = column.replace("/", "_")
  caption = (
    f"Moving average over {window} values; the faint lines are the values themselves."
    if window > 1
    else ""
  )
  return Figure(name, title, caption, alt(title, setting), drawn) if drawn else None


def communication_bars(setting: Setting) -> Figure | None:
  """Download and upload bytes per client and round, by method."""
  sizes = [(m, s) for m in setting.methods if (s := measures.bytes_per_client(m.best.runs))]
  if not sizes:
    return None
  with plt.rc_context(RC):
    figure, axes = plt.subplots(figsize=(6.4, 1.3 + 0.42 * len(sizes)))
    largest = max(sum(size) for _, size in sizes) or 1.0
    for i, (method, (down, up)) in enumerate(sizes):
      colour = palette.style(method.algo).colour
      axes.barh(i, down, color=colour, height=0.62)
      axes.barh(i, up, left=down, color="white", edgecolor=colour, hatch="////", height=0.62)
      axes.text(
        down + up + 0.01 * largest,
        i,
        result_tables.show_bytes(down + up),
        va="center",
        fontsize=10.5,
      )
    axes.set_yticks(range(len(sizes)), [plain(m.label) for m, _ in sizes])
    axes.set_ylim(len(sizes) - 0.5, -0.5)  # the default margin is a share of the height
    axes.set_xlim(0, 1.16 * largest)
    axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: result_tables.show_bytes(v)))
    axes.xaxis.set_major_locator(MaxNLocator(5))
    axes.grid(axis="y", visible=False)
    axes.set_xlabel("Per client and round: down (solid), up (hatched)")
    put_title(axes, setting)
  title = "Communication per client and round"
  return Figure(
    "communication", title, "Solid: download. Hatched: upload.", alt(title, setting), figure
  )


def _curves(
  setting: Setting,
  column: str,
  label: str,
  what: str,
  factor: float,
  *,
  target: bool,
  window: int = 1,
) -> plt.Figure | None:
  lines = [
    (method, line, x)
    for method in setting.methods
    if len((line := measures.curve(method.best.runs, column)).rounds)
    and (x := measures.spent(method.best.runs, what, line.rounds)) is not None
  ]
  if not lines:
    return None
  with plt.rc_context(RC):
    figure, axes = plt.subplots(figsize=(7.2, 4.3))
    for method, line, x in lines:
      if window > 1:
        colour = palette.style(method.algo).colour
        axes.plot(x, line.mean * factor, color=colour, linewidth=0.6, alpha=0.3)
        line = measures.smoothed(line, window)
      _draw_line(axes, method, x, line.mean * factor, line.std * factor)
    _limit(axes, lines, factor, rising=target and setting.metric.larger_is_better)
    reference = result_tables.baseline(setting) if target else None
    if reference:
      level = measures.final_spread(reference.best.runs, setting.metric).mean * factor
      axes.axhline(level, color="#777777", linewidth=0.9, zorder=1)
    axes.set_xlabel(X_LABELS[what])
    axes.set_ylabel(plain(label))
    _format_x(axes, what)
    put_title(axes, setting)
    _legend(axes, lines)
  return figure


def _draw_line(
  axes: Axes, method: Method, x: np.ndarray, mean: np.ndarray, std: np.ndarray
) -> None:
  colour, dashes, marker = palette.style(method.algo, method.variant)
  axes.plot(x, mean, color=colour, linestyle=dashes, marker=marker, markevery=0.1, markersize=6,
            label=plain(method.label) + (" ×" if method.best.diverged else ""))  # fmt: skip
  if np.any(std > 0):
    axes.fill_between(x, mean - std, mean + std, color=colour, alpha=0.15, linewidth=0)
  if method.best.diverged:
    axes.plot(x[-1:], mean[-1:], marker="x", markersize=10, markeredgewidth=2.5, color=colour)


def _limit(axes: Axes, lines: Sequence, factor: float, *, rising: bool) -> None:
  """Sets the limits of the y axis to the range that matters.

  Diverged methods, and the first tenth of an accuracy curve, do not count. Values that span two decades get
  a logarithmic axis.
  """
  calm = [line.mean * factor for method, line, _ in lines if not method.best.diverged]
  values = np.concatenate(calm or [line.mean * factor for _, line, _ in lines])
  low, high = float(values.min()), float(values.max())
  if low > 0 and high > 100 * low and not rising:
    axes.set_yscale("log")
    axes.set_ylim(low / 1.3, high * 1.3)
  elif calm and high > low and (rising or len(calm) < len(lines)):
    if rising:
      low = min(float(mean[len(mean) // 10 :].min()) for mean in calm)
    margin = 0.06 * (high - low) or 0.01
    axes.set_ylim(low - margin, high + margin)


def _legend(axes: Axes, lines: Sequence) -> None:
  """Puts the legend beside the plot, in the order in which the curves end, from top to bottom.

  A long legend goes below the plot, in columns: beside it, it would leave the plot no room.
  """
  handles, labels = axes.get_legend_handles_labels()
  ends = [line.mean[-1] for _, line, _ in lines]
  order = sorted(range(len(labels)), key=lambda i: -ends[i])
  sorted_handles, sorted_labels = [handles[i] for i in order], [labels[i] for i in order]
  if len(lines) > LONG_LEGEND:
    axes.legend(sorted_handles, sorted_labels, loc="upper center", bbox_to_anchor=(0.5, -0.16), ncols=4,
                fontsize=8.5, handlelength=3, columnspacing=1.2)  # fmt: skip
  else:
    axes.legend(sorted_handles, sorted_labels, loc="center left", bbox_to_anchor=(1.01, 0.5),
                handlelength=3.4)  # fmt: skip


def _format_x(axes: Axes, what: str) -> None:
  axes.set_xlim(left=0)
  shown: dict[str, Callable[[float], str]] = {
    "rounds": lambda v: f"{v:,.0f}",
    "bytes": result_tables.show_bytes,
    "seconds": lambda v: f"{v:g} s",
    "virtual": lambda v: f"{v:g} s",
  }
  axes.xaxis.set_major_formatter(FuncFormatter(lambda v, _: shown[what](v)))
  axes.xaxis.set_major_locator(MaxNLocator(6, integer=what == "rounds"))


def put_title(axes: Axes, setting: Setting) -> None:
  """Writes the setting above the plot, for use outside the report."""
  axes.set_title(plain(", ".join([setting.label, *setting.notes])), pad=24)
  axes.annotate(plain(setting.subtitle), (0, 1), (0, 8), xycoords="axes fraction", textcoords="offset points",
                fontsize=10.5, color="#59636e")  # fmt: skip


def _axis_word(what: str) -> str:
  return {"seconds": "training time", "virtual": "simulated time"}.get(what, what)


def alt(title: str, setting: Setting) -> str:
  """The alternative text of a figure."""
  methods = ", ".join(method.label for method in setting.methods)
  return f"{title} of {methods} on {', '.join([setting.label, *setting.notes])}"
