"""The table of how methods serve single clients: the last evaluation on clients' own data."""

import numpy as np

from experiments.reports import measures
from experiments.reports.comparison import Method, Setting
from experiments.reports.table_formats import Table, TableCell
from experiments.runs.columns import CLIENT_EVAL, EVAL

NOT_MEASURED = "–"
# What the columns of the table show, and how they continue after the metric's name.
_SHOWN = {"mean": "mean", "worst_decile": "worst tenth", "std": "std over clients"}


def client_table(setting: Setting) -> Table | None:
  """The main metric over clients: mean, worst tenth, deviation, before and after personalisation.

  Returns:
    The table; None if no method was evaluated on clients.
  """
  name = setting.metric.column.removeprefix(EVAL)
  columns = {
    f"{CLIENT_EVAL}{prefix}{name}_{statistic}": f"{words}{title}"
    for prefix, words in (("", ""), ("personalised_", "personalised: "))
    for statistic, title in _SHOWN.items()
  }
  measured = [m for m in setting.methods if any(_last(m, column) is not None for column in columns)]
  if not measured:
    return None
  there = [c for c in columns if any(_last(m, c) is not None for m in measured)]
  rows = [
    [TableCell(method.label), *(_cell(_last(method, column), setting) for column in there)]
    for method in measured
  ]
  unit = " (%)" if setting.metric.larger_is_better else ""
  caption = (
    f"The last evaluation of {setting.metric.name}{unit} on held-out examples of a sample of clients; the "
    "mean over seeds. The worst tenth is the mean over the tenth of the clients with the worst values. The "
    "personalised model has taken a few local steps at the client."
  )
  return Table(
    "clients",
    f"{setting.metric.name.capitalize()} over clients: {setting.label}",
    caption,
    ["Method", *(columns[column].capitalize() for column in there)],
    rows,
  )


def _last(method: Method, column: str) -> float | None:
  """The last value of the mean curve over seeds."""
  values = measures.curve(method.best.runs, column).mean
  return float(values[-1]) if len(values) and np.isfinite(values[-1]) else None


def _cell(value: float | None, setting: Setting) -> TableCell:
  if value is None:
    return TableCell(NOT_MEASURED)
  return TableCell(setting.metric.show(value), value=value * setting.metric.factor)
