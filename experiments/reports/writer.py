"""Writes a report: draws the figures, and writes figures, tables and the page to the output folder."""

import io
import pathlib
from collections.abc import Sequence

import matplotlib.pyplot as plt

from experiments.reports import chart_data, contents, figures, heatmaps, trends, virtual_time
from experiments.reports.comparison import Setting
from experiments.reports.page import Picture, page
from experiments.reports.table_formats import FileNames, Table, to_csv, to_latex, to_markdown
from experiments.runs.folder import write_atomically


class _Folder:
  """The output folder; gives every file a distinct name."""

  def __init__(self, path: pathlib.Path):
    self.path = path
    self.names = FileNames()
    for part in ("figures", "tables"):
      (path / part).mkdir(parents=True, exist_ok=True)

  def picture(self, figure: figures.Figure, prefix: str, *, charted: bool = False) -> Picture:
    """Writes a figure as PNG and SVG."""
    name = self.names.distinct("figure", f"{prefix}_{figure.name}")
    svg = io.BytesIO()
    with plt.rc_context(figures.RC):
      figure.drawn.savefig(svg, format="svg", metadata={"Date": None, "Creator": None})
      figure.drawn.savefig(self.path / "figures" / f"{name}.png")
    plt.close(figure.drawn)
    (self.path / "figures" / f"{name}.svg").write_bytes(svg.getvalue())
    width, height = figure.drawn.get_size_inches()
    files = f"figures/{name}.svg, .png"
    return Picture(
      figure.title, figure.caption, figure.alt, svg.getvalue(), files, charted, height > width
    )

  def table(self, table: Table, prefix: str) -> Table:
    """Writes a table as Markdown, LaTeX and CSV."""
    named = self.names.table(table, prefix)
    for suffix, to_text in (("md", to_markdown), ("tex", to_latex), ("csv", to_csv)):
      write_atomically(self.path / "tables" / f"{named.name}.{suffix}", to_text(table))
    return named


def write(output: str, settings: Sequence[Setting], left_out: Sequence[str]) -> str:
  """Writes the report to the output folder; returns the final table and a closing sentence."""
  folder = _Folder(pathlib.Path(output))
  ended = [setting for setting in settings if setting.methods]
  across = [*trends.trends(ended), *heatmaps.heat_maps(ended)]
  composed = contents.compose(
    settings,
    left_out,
    keep_table=folder.table,
    pictures=lambda setting: _pictures(setting, folder),
    across=[folder.picture(figure, "") for figure in across],
  )
  assert composed.final is not None, "at least one run has finished"
  write_atomically(folder.path / "index.html", page(composed))
  runs = sum(len(contents.finished_runs(setting)) for setting in settings)
  return (
    f"{to_markdown(composed.final)}\nThe report on {runs} run{'s' * (runs > 1)} is in {folder.path}: "
    "index.html, figures/ (PNG, SVG), tables/ (Markdown, LaTeX, CSV)."
  )


def _pictures(setting: Setting, folder: _Folder) -> list[Picture]:
  """The static figures of a setting; the curves among them are charts on the page."""
  curves = [
    figures.metric_curves(setting, what) for what in ("rounds", "bytes", "seconds", "virtual")
  ]
  for column in ("train/loss", "eval/loss"):
    if column != setting.metric.column:
      curves.append(figures.column_curves(setting, column))
  curves += [figures.column_curves(setting, column) for column in chart_data.diagnostics(setting)]
  bars = [virtual_time.staleness_bars(setting), virtual_time.idle_bars(setting)]
  bars.append(figures.communication_bars(setting))
  return [
    folder.picture(figure, setting.label, charted=charted)
    for drawn, charted in ((curves, True), (bars, False))
    for figure in drawn
    if figure is not None
  ]
