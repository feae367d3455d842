"""The tables of a report: final values, costs, best values, communication, hyperparameters."""

import dataclasses
import math
from collections.abc import Callable, Sequence

import numpy as np

from experiments.reports import measures
from experiments.reports.comparison import (
  Configuration,
  Method,
  Setting,
  catalogue_order,
  shown,
  varying,
)
from experiments.reports.table_formats import Table, TableCell
from experiments.runs.final_value import DESCRIPTION, window
from experiments.runs.metric import Metric
from experiments.runs.reader import Run

BASELINE = "fedavg"
NOT_MEASURED = "–"
NOT_REACHED = "not reached"
FINAL = f"“Final” is {DESCRIPTION}."


def baseline(setting: Setting) -> Method | None:
  """The first variant of FedAvg in this setting; None if there is none or it diverged."""
  found = next((m for m in setting.methods if m.algo == BASELINE), None)
  return found if found and not found.best.diverged else None


def final_table(settings: Sequence[Setting]) -> Table:
  """The final metric of every method in every setting, as in GHBM's Tables 1, 2 and 7."""
  methods = sorted((m for s in settings for m in s.methods), key=catalogue_order)
  labels = list(dict.fromkeys(method.label for method in methods))
  columns = [_final_column(setting, labels) for setting in settings]
  header = ["Method"]
  for setting in settings:
    unit = " (%)" if setting.metric.larger_is_better else " (lower is better)"
    header.append("; ".join([setting.label, *setting.notes, setting.metric.name + unit]))
  rows = [[TableCell(label), *(column[i] for column in columns)] for i, label in enumerate(labels)]
  return Table("final", "Final test metric", _final_caption(settings), header, rows)


def _final_caption(settings: Sequence[Setting]) -> str:
  lengths = sorted({max(run.rounds for m in s.methods for run in m.best.runs) for s in settings})
  windows = ", ".join(f"{t - window(t) + 1} to {t}" for t in lengths)
  seeds = sorted({len(m.best.runs) for s in settings for m in s.methods})
  caption = f"{FINAL} Here: over rounds {windows}"
  if seeds[-1] > 1:
    counts = str(seeds[0]) if len(seeds) == 1 else f"{seeds[0]} to {seeds[-1]}"
    caption += f" and over {counts} seeds, ± the standard deviation over seeds"
  caption += ". The best is bold, the second best underlined; × means that a run diverged."
  if any(len(m.configurations) > 1 for s in settings for m in s.methods):
    caption += f" {_chosen_on(settings)}"
  if any(m.is_reference for s in settings for m in s.methods):
    caption += " Reference lines are not ranked."
  return caption


def _chosen_on(settings: Sequence[Setting]) -> str:
  """What hyperparameters were chosen on."""
  held_out = {s.values.get("tune_on") == "validation" for s in settings}
  if held_out == {False}:
    return "Hyperparameters were chosen on the same test data (--tune_on=test)."
  where = "" if held_out == {True} else ", or on the same test data where tune_on is not validation"
  return f"Hyperparameters were chosen on held-out training clients (--tune_on=validation){where}."


def _final_column(setting: Setting, labels: Sequence[str]) -> list[TableCell]:
  found = {m.label: m.best for m in setting.methods}
  ranked = {m.label for m in setting.methods if not m.is_reference}
  # Values that are equal as displayed share a place.
  values = {
    label: float(
      setting.metric.show(measures.final_spread(configuration.runs, setting.metric).mean)
    )
    for label, configuration in found.items()
    if not configuration.diverged and label in ranked
  }
  order = sorted(set(values.values()), reverse=setting.metric.larger_is_better)
  places = {value: place for place, value in enumerate(order[:2], 1)} if len(values) > 1 else {}
  return [
    final_cell(found[label], setting, places.get(values.get(label, math.nan), 0))
    if label in found
    else TableCell(NOT_MEASURED)
    for label in labels
  ]


def final_text(configuration: Configuration, setting: Setting) -> str:
  """The final value of a configuration as text."""
  if configuration.diverged:
    return (
      "×"
      if configuration.diverged == len(configuration.runs)
      else f"× ({configuration.diverged} of {len(configuration.runs)} seeds)"
    )
  mean, std = measures.final_spread(configuration.runs, setting.metric)
  show = setting.metric.show
  return (
    show(mean)
    if math.isnan(std)
    else f"{show(mean)} ± {_like(show(mean), std * setting.metric.factor)}"
  )


def final_cell(configuration: Configuration, setting: Setting, place: int = 0) -> TableCell:
  """The final value of a configuration as a cell; `place` is 1 for the best."""
  text = final_text(configuration, setting)
  if configuration.diverged:
    return TableCell(text, place)
  mean, std = measures.final_spread(configuration.runs, setting.metric)
  factor = setting.metric.factor
  deviation = None if math.isnan(std) else std * factor
  return TableCell(text, place, value=mean * factor, deviation=deviation)


def _like(model: str, value: float) -> str:
  """A number with as many decimals as the model has."""
  decimals = len(model.partition(".")[2]) if "e" not in model else 3
  return f"{value:.{decimals}f}"


def cost_table(setting: Setting) -> Table | None:
  """Rounds, bytes, FLOPs and time to reach FedAvg's final metric; None without FedAvg."""
  reference = baseline(setting)
  if reference is None or len(setting.methods) < 2:
    return None
  target = measures.final_spread(reference.best.runs, setting.metric).mean
  costs = {
    m.label: measures.cost_to_target(m.best.runs, setting.metric, target) for m in setting.methods
  }
  formats: dict[str, tuple[str, Callable[[float], str]]] = {
    "rounds": ("Rounds", show_count),
    "bytes": ("Bytes", show_bytes),
    "flops": ("FLOPs", show_flops),
    "seconds": ("Training time", show_time),
  }
  columns = [
    c for c in formats if any(getattr(cost, c, None) is not None for cost in costs.values())
  ]
  base = costs[reference.label]
  rows = []
  for label, cost in costs.items():
    if cost is None:
      missing = [TableCell(NOT_REACHED), *[TableCell(NOT_MEASURED)] * (len(columns) - 1)]
      rows.append([TableCell(label), *missing])
      continue
    row = [TableCell(label)]
    for column in columns:
      value, of_base = getattr(cost, column), getattr(base, column, None)
      compared = label != reference.label and value is not None and of_base
      change = 100 * (value / of_base - 1) if compared else None
      text = NOT_MEASURED if value is None else formats[column][1](value)
      row.append(TableCell(text, change=change, value=value))
    rows.append(row)
  level = setting.metric.show(target) + (" %" if setting.metric.larger_is_better else "")
  caption = (
    f"Cost until the mean curve over seeds first reaches {reference.label}’s final {setting.metric.name}, "
    f"{level}: the run’s cost times r/T, where r is that first round and T the number of rounds. "
    f"{reference.label} is charged in the same way. ↓ is a saving relative to {reference.label}. {FINAL}"
  )
  return Table(
    "cost", _title(f"Cost to reach {reference.label}’s final {setting.metric.name}", setting), caption,
    ["Method", *(formats[c][0] for c in columns)], rows,
  )  # fmt: skip


def peak_table(setting: Setting) -> Table:
  """The best value during training and its cost, as in FedGBO's Table 4."""
  metric, reference = setting.metric, baseline(setting)
  peaks = {m.label: _peak(m, metric) for m in setting.methods}
  has_flops = any(measures.so_far(m.best.runs[0], "flops") is not None for m in setting.methods)
  unit = " (%)" if metric.larger_is_better else ""
  what = [("rounds", "Rounds"), ("upload", "Upload"), *([("flops", "FLOPs")] if has_flops else [])]
  header = ["Method", f"Best {metric.name}{unit}", *(f"{name} to best" for _, name in what)]
  if reference:
    header += [f"{name} to {reference.label}’s best" for _, name in what]
  values = [
    p[1]
    for m in setting.methods
    if not m.best.diverged and not m.is_reference and (p := peaks[m.label])
  ]
  best = (max(values) if metric.larger_is_better else min(values)) if len(values) > 1 else None
  rows = []
  for method in setting.methods:
    runs, peak = method.best.runs, peaks[method.label]
    row = [TableCell(method.label)]
    if peak is None or method.best.diverged:
      rows.append([*row, TableCell("×"), *[TableCell(NOT_MEASURED)] * (len(header) - 2)])
      continue
    text = metric.show(peak[1])
    text += f" ± {_like(text, peak[2] * metric.factor)}" if len(runs) > 1 else ""
    deviation = peak[2] * metric.factor if len(runs) > 1 else None
    number = peak[1] * metric.factor
    row.append(TableCell(text, int(peak[1] == best), value=number, deviation=deviation))
    row += [_spent(runs, name, peak[0]) for name, _ in what]
    if reference:
      target = peaks[reference.label]
      hit = (
        measures.first_round_at(runs, metric, target[1])
        if target and method is not reference
        else None
      )
      row += [_spent(runs, name, hit) for name, _ in what]
    rows.append(row)
  caption = (
    "The best value of the mean curve over seeds, and the cost until it was first reached. The best value "
    f"of a noisy curve is larger than its final value: {DESCRIPTION}."
    if metric.larger_is_better
    else "The best value of the mean curve over seeds, and the cost until it was first reached. The best "
    f"value of a noisy curve is smaller than its final value: {DESCRIPTION}."
  )
  caption += f" –: {reference.label}’s best is never reached." if reference else ""
  return Table(
    "peak", _title(f"Best {metric.name} during training", setting), caption, header, rows
  )


def _peak(method: Method, metric: Metric) -> tuple[float, float, float] | None:
  rounds, mean, std = measures.curve(method.best.runs, metric.column)
  if not len(rounds):
    return None
  i = int(np.argmax(mean) if metric.larger_is_better else np.argmin(mean))
  return float(rounds[i]), float(mean[i]), float(std[i])


def _spent(runs: Sequence[Run], what: str, rounds: float | None) -> TableCell:
  values = None if rounds is None else measures.spent(runs, what, np.array([rounds]))
  if values is None:
    return TableCell(NOT_MEASURED)
  show = {"rounds": show_count, "upload": show_bytes, "flops": show_flops}[what]
  return TableCell(show(float(values[0])), value=float(values[0]))


def communication_table(setting: Setting) -> Table | None:
  """Bytes per client and round, and their ratio to FedAvg's."""
  sizes = {m.label: measures.bytes_per_client(m.best.runs) for m in setting.methods}
  if not any(sizes.values()):
    return None
  reference = next((sizes[m.label] for m in setting.methods if m.algo == BASELINE), None)
  rows = []
  for label, size in sizes.items():
    ratio = (
      f"{sum(size) / sum(reference):.3g}×"
      if size and reference and sum(reference)
      else NOT_MEASURED
    )
    sizes_shown = (
      [TableCell(show_bytes(s), value=s) for s in size] if size else [TableCell(NOT_MEASURED)] * 2
    )
    rows.append([TableCell(label), *sizes_shown, TableCell(ratio)])
  return Table("communication", _title("Communication per client and round", setting),
               "Sizes of the compiled message and upload types; median over rounds.",
               ["Method", "Down", "Up", "Relative to FedAvg"], rows)  # fmt: skip


def configurations_table(setting: Setting) -> Table | None:
  """All configurations of every method, the best of each method first."""
  tried = [m for m in setting.methods if len(m.configurations) > 1]
  if not tried:
    return None
  rows = []
  for method in tried:
    names = varying([configuration.tuned for configuration in method.configurations])
    for each in sorted(
      method.configurations, key=lambda c: measures.tuning_rank(c.runs, setting.metric)
    ):
      values = ", ".join(f"{name}={shown(each.tuned.get(name, 'default'))}" for name in names)
      rows.append([
        TableCell(method.label),
        TableCell(values),
        TableCell(str(len(each.runs))),
        final_cell(each, setting, int(each is method.best)),
      ])  # fmt: skip
  caption = (
    "The best first; the one in bold is used in the other tables and figures. "
    f"{_chosen_on([setting])} {FINAL}"
  )
  header = ["Method", "Values", "Seeds", f"Final {setting.metric.name}"]
  title = _title("Hyperparameters tried", setting)
  return Table("cells", title, caption, header, rows, foldable=True)


def with_notes(table: Table, setting: Setting) -> Table:
  """The table with the notes of its setting, which CSV shows in the header."""
  return dataclasses.replace(table, notes=setting.notes)


def _title(text: str, setting: Setting) -> str:
  return f"{text}: {', '.join([setting.label, *setting.notes])}"


def show_count(value: float) -> str:
  """A whole number as text, as in 1,200."""
  return f"{value:,.0f}"


def show_bytes(value: float) -> str:
  """A size as text, as in 30.9 GB."""
  for unit in ("B", "kB", "MB", "GB", "TB"):
    if value < 1000 or unit == "TB":
      break
    value /= 1000
  return (
    f"{value:.0f} B"
    if unit == "B"
    else f"{value:.1f} {unit}"
    if value < 100
    else f"{value:.0f} {unit}"
  )


def show_flops(value: float) -> str:
  """A number of operations as text, as in 1.20e12."""
  return f"{value:.2e}".replace("e+", "e")


def show_time(seconds: float) -> str:
  """A duration as text, as in 8.4 s, 4:05 min or 13:51 h."""
  if seconds < 99.5:
    return f"{seconds:.1f} s"
  minutes, rest = divmod(round(seconds), 60)
  if minutes < 100:
    return f"{minutes}:{rest:02} min"
  return f"{minutes // 60}:{minutes % 60:02} h"
