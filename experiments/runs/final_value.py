"""The final value of a run: the mean over its last 100 rounds, or over the last half of a shorter run.

One evaluation is noisy: with few clients per round, the accuracy of FedAvg on non-IID data moves by several
points from round to round, so the last evaluation alone would rank methods by luck. The papers' tables
average over the last 100 rounds. A run of fewer than 200 rounds averages over its second half, which leaves
out the steep start. Only rounds with an evaluation count; if the window has none, the last evaluation does.

The closing words of run.py, sweeps, reports and claims all use this definition.
"""

import numpy as np

from experiments.runs.reader import Columns

LAST_ROUNDS = 100
DESCRIPTION = f"the mean over the last {LAST_ROUNDS} rounds, or the last half of a shorter run"


def window(rounds: int) -> int:
  """The number of rounds, at the end of a run of `rounds` rounds, that its final value averages over.

  >>> [window(rounds) for rounds in (1, 30, 5000)]
  [1, 15, 100]
  """
  return min(LAST_ROUNDS, max(1, rounds // 2))


def final_value(columns: Columns, column: str, rounds: int | None = None) -> float | None:
  """The final value of one column of a run.

  Args:
    columns: metrics.csv as `reader` returns it.
    column: the column, as in `eval/accuracy`.
    rounds: as if the run had ended after this round; by default after its last.

  Returns:
    The value, infinite if an evaluation in the window was not finite; None if there was no evaluation.
  """
  if column not in columns or not len(columns["round"]):
    return None
  last = int(columns["round"][-1]) if rounds is None else rounds
  measured = ~np.isnan(columns[column]) & (columns["round"] <= last)
  if not measured.any():
    return None
  ended = min(last, int(columns["round"][-1]))
  recent = measured & (columns["round"] > ended - window(ended))
  values = columns[column]
  return float(np.mean(values[recent] if recent.any() else values[measured][-1:]))
