"""Puts the contents of a report together: tables, charts and, if wanted, static figures."""

import datetime
from collections.abc import Callable, Iterable, Sequence

import numpy as np

from experiments.reports import chart_data, client_table, differences, result_tables
from experiments.reports.algorithm_names import spelled
from experiments.reports.comparison import Setting
from experiments.reports.page import Contents, Picture, Section
from experiments.reports.table_formats import Table, TableCell
from experiments.runs.reader import Run


def compose(
  settings: Sequence[Setting],
  left_out: Sequence[str],
  *,
  keep_table: Callable[[Table, str], Table],
  pictures: Callable[[Setting], Sequence[Picture]] | None = None,
  across: Sequence[Picture] = (),
) -> Contents:
  """The contents of a page.

  Args:
    settings: the compared runs.
    left_out: a sentence for each run that was left out.
    keep_table: called with each table and the prefix of its name; returns the table with its name in full.
    pictures: the static figures of a setting; None for a page without them.
    across: the static figures that compare settings.
  """
  ended = [setting for setting in settings if setting.methods]
  final = keep_table(result_tables.final_table(ended), "") if ended else None
  sections = [
    Section(
      setting,
      pictures(setting) if pictures and setting.methods else [],
      [keep_table(table, setting.label) for table in setting_tables(setting)],
    )
    for setting in settings
  ]
  unfinished = unfinished_table(settings)
  return Contents(
    final=final,
    sections=sections,
    across=across,
    unfinished=keep_table(unfinished, "") if unfinished else None,
    runs=keep_table(runs_table(ended), "") if ended else None,
    left_out=left_out,
    charts=chart_data.to_json(settings),
    static=pictures is not None,
  )


def finished_runs(setting: Setting) -> list[Run]:
  """All finished runs of a setting, of every configuration."""
  configurations = [each for method in setting.methods for each in method.configurations]
  return [run for configuration in configurations for run in configuration.runs]


def setting_tables(setting: Setting) -> list[Table]:
  """The tables of one setting; none if no run has finished."""
  if not setting.methods:
    return []
  made = [
    result_tables.cost_table(setting),
    result_tables.peak_table(setting),
    result_tables.communication_table(setting),
    client_table.client_table(setting),
    result_tables.configurations_table(setting),
    differences.differences_table(setting),
  ]
  return [result_tables.with_notes(table, setting) for table in made if table is not None]


def unfinished_table(settings: Iterable[Setting]) -> Table | None:
  """The runs that are going on or were interrupted; None if there are none."""
  rows = []
  for setting in settings:
    for run in setting.unfinished:
      values = run.columns.get(setting.metric.column, np.array([]))
      measured = values[np.isfinite(values)]
      last = setting.metric.show(float(measured[-1])) if len(measured) else "–"
      texts = [str(run.path), spelled(run.config["algo"]), str(run.config["seed"])]
      texts += [", ".join([setting.label, *setting.notes]), chart_data.unfinished_note(run)]
      texts += [f"{setting.metric.name} {last}", _written(run), "diverged" if run.diverged else ""]
      rows.append([TableCell(text) for text in texts])
  if not rows:
    return None
  caption = (
    "These runs are going on or were interrupted; the same command resumes them. They are in the charts, "
    "with a dotted line and an open end, and in no other table."
  )
  header = ["Folder", "Algorithm", "Seed", "Setting", "Progress", "Last evaluation", "Last row", ""]
  return Table("unfinished", "Unfinished runs", caption, header, rows, foldable=True, texts=True)


def runs_table(settings: Iterable[Setting]) -> Table:
  """The finished runs."""
  rows = []
  for setting in settings:
    where = ", ".join([setting.label, *setting.notes])
    for run in finished_runs(setting):
      revision = run.config.get("versions", {}).get("git", "")
      texts = [run.path.name, run.config["algo"], run.config["seed"], where, run.rounds, revision]
      rows.append([TableCell(str(text)) for text in [*texts, "diverged" if run.diverged else ""]])
  return Table("runs", "Finished runs", "Every run in this report.",
               ["Folder", "Algorithm", "Seed", "Setting", "Rounds", "Revision", ""], rows,
               foldable=True, texts=True)  # fmt: skip


def _written(run: Run) -> str:
  try:
    seconds = (run.path / "metrics.csv").stat().st_mtime
  except OSError:
    return "–"
  return datetime.datetime.fromtimestamp(seconds).strftime("%Y-%m-%d %H:%M:%S")
