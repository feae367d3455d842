"""The contents of summary.json: a run's last evaluation, final values and cost, and whether it diverged."""

import resource

import numpy as np

from experiments.runs.columns import COUNTERS, EVAL, SECONDS, VALIDATION
from experiments.runs.divergence import has_diverged
from experiments.runs.final_value import final_value, window
from experiments.runs.reader import Columns, last_row


def summarise(columns: Columns) -> dict[str, float | bool | str | None]:
  """Sums up a finished run from its metrics.csv.

  `last eval/...` is the last evaluation; `final eval/...` is the final value, as `final_value` defines it.
  """
  rounds = len(columns["round"])
  found: dict[str, float | bool | str | None] = {
    "rounds": rounds,
    "final": f"the mean over the last {window(rounds)} rounds",
  }
  for name, values in columns.items():
    measured = values[~np.isnan(values)]
    if name.startswith((EVAL, VALIDATION)) and len(measured):
      found[f"last {name}"] = float(measured[-1])
      found[f"final {name}"] = final_value(columns, name)
    elif name.startswith(SECONDS) or name in COUNTERS:
      found[name] = float(measured.sum())
  found["peak memory, MiB"] = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
  found["bytes"] = int(columns["bytes/total"][-1])
  found["diverged"] = has_diverged(last_row(columns))
  return found
