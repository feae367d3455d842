"""Writes a report: draws the figures, and writes figures, tables and the page to the output folder."""

import dataclasses
import io
import pathlib
import re
from collections.abc import Iterable, Sequence

import matplotlib.pyplot as plt
import numpy as np

from experiments.reports import figures, heatmaps, result_tables, trends, virtual_time
from experiments.reports.comparison import Setting
from experiments.reports.page import Picture, Section, page
from experiments.reports.table_formats import Table, to_csv, to_latex, to_markdown
from experiments.runs.folder import write_atomically

# Columns that are not drawn as diagnostics: they have their own figures or tables, or need none.
FAMILIES = ("train/", "eval/", "bytes/", "seconds/", "flops/", "virtual/", "staleness/", "rounds/")
PLAIN = ("round", "clients", "clients/stale")


class _Folder:
  """The output folder; gives every file a distinct name."""

  def __init__(self, path: pathlib.Path):
    self.path = path
    self.used: set[tuple[str, str]] = set()
    for part in ("figures", "tables"):
      (path / part).mkdir(parents=True, exist_ok=True)

  def _name(self, kind: str, text: str) -> str:
    base = re.sub(r"[^a-z0-9.=-]+", "_", text.lower()).strip("_.")[:80] or kind
    name, number = base, 1
    while (kind, name) in self.used:
      number += 1
      name = f"{base}_{number}"
    self.used.add((kind, name))
    return name

  def picture(self, figure: figures.Figure, prefix: str) -> Picture:
    """Writes a figure as PNG and SVG."""
    name = self._name("figure", f"{prefix}_{figure.name}")
    svg = io.BytesIO()
    with plt.rc_context(figures.RC):
      figure.drawn.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
      figure.drawn.savefig(self.path / "figures" / f"{name}.png")
    plt.close(figure.drawn)
    (self.path / "figures" / f"{name}.svg").write_bytes(svg.getvalue())
    return Picture(
      figure.title, figure.caption, figure.alt, svg.getvalue(), f"figures/{name}.svg, .png"
    )

  def table(self, table: Table, prefix: str) -> Table:
    """Writes a table as Markdown, LaTeX and CSV."""
    name = self._name("table", f"{prefix}_{table.name}")
    write_atomically(self.path / "tables" / f"{name}.md", to_markdown(table))
    write_atomically(self.path / "tables" / f"{name}.tex", to_latex(table))
    write_atomically(self.path / "tables" / f"{name}.csv", to_csv(table))
    return dataclasses.replace(table, name=name)


def write(output: str, settings: Sequence[Setting], left_out: Sequence[str]) -> str:
  """Writes the report to the output folder; returns the final table and a closing sentence."""
  folder = _Folder(pathlib.Path(output))
  final = folder.table(result_tables.final_table(settings), "")
  sections = []
  for setting in settings:
    pictures = [folder.picture(figure, setting.label) for figure in _figures(setting)]
    tables = [folder.table(table, setting.label) for table in _tables(setting)]
    sections.append(Section(setting, pictures, tables))
  across = [*trends.trends(settings), *heatmaps.heat_maps(settings)]
  heat = [folder.picture(figure, "") for figure in across]
  runs = [
    run
    for s in settings
    for m in s.methods
    for configuration in m.configurations
    for run in configuration.runs
  ]
  write_atomically(folder.path / "index.html", page(final, sections, heat, runs, left_out))
  counted = f"{len(runs)} run{'s' * (len(runs) > 1)}"
  return (
    f"{to_markdown(final)}\nThe report on {counted} is in {folder.path}: index.html, figures/ (PNG, SVG), "
    "tables/ (Markdown, LaTeX, CSV)."
  )


def _figures(setting: Setting) -> Iterable[figures.Figure]:
  drawn = [
    figures.metric_curves(setting, what) for what in ("rounds", "bytes", "seconds", "virtual")
  ]
  for column in ("train/loss", "eval/loss"):
    if column != setting.metric.column:
      drawn.append(figures.column_curves(setting, column))
  drawn += [figures.column_curves(setting, column) for column in _diagnostics(setting)]
  drawn += [virtual_time.staleness_bars(setting), virtual_time.idle_bars(setting)]
  drawn.append(figures.communication_bars(setting))
  return [figure for figure in drawn if figure is not None]


def _diagnostics(setting: Setting) -> list[str]:
  """The columns without a figure of their own, such as drift, cosine distances and norms."""
  columns = dict.fromkeys(c for m in setting.methods for run in m.best.runs for c in run.columns)
  runs = [run for method in setting.methods for run in method.best.runs]
  counts = {c for c in columns if c.startswith("clients/")}
  nothing = {
    c for c in counts if not any(np.nan_to_num(run.columns.get(c, 0)).any() for run in runs)
  }
  return [c for c in columns if c not in {*PLAIN, *nothing} and not c.startswith(FAMILIES)]


def _tables(setting: Setting) -> Iterable[Table]:
  made = [
    result_tables.cost_table(setting),
    result_tables.peak_table(setting),
    result_tables.communication_table(setting),
    result_tables.configurations_table(setting),
  ]
  return [dataclasses.replace(t, notes=setting.notes) for t in made if t is not None]
