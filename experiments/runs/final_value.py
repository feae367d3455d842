"""The final value of a run: the mean over its last 100 rounds, or over the last half of a shorter run.

One evaluation is noisy: with few clients per round, the accuracy of FedAvg on non-IID data moves by several
points from round to round, so the last evaluation alone would rank methods by luck. The papers' tables
average over the last 100 rounds. A run of fewer than 200 rounds averages over its second half, which leaves
out the steep start. Only rounds with an evaluation count; if the window has none, the last evaluation does.

The closing words of run.py, sweeps, reports and claims all use this definition. A claim may state another
number of last rounds, if the paper's table averages over it.
"""

import numpy as np

from experiments.runs.reader import Columns

LAST_ROUNDS = 100
DESCRIPTION = f"the mean over the last {LAST_ROUNDS} rounds, or the last half of a shorter run"


def window(rounds: int, last: int | None = None) -> int:
  """The number of rounds, at the end of a run of `rounds` rounds, that its final value averages over.

  Args:
    rounds: the number of rounds of the run.
    last: a number that replaces the definition above.

  >>> [window(rounds) for rounds in (1, 30, 5000)]
  [1, 15, 100]
  >>> window(30, last=5)
  5
  """
  return min(LAST_ROUNDS, max(1, rounds // 2)) if last is None else min(last, rounds)


def final_value(
  columns: Columns, column: str, rounds: int | None = None, last: int | None = None
) -> float | None:
  """The final value of one column of a run.

  Args:
    columns: metrics.csv as `reader` returns it.
    column: the column, as in `eval/accuracy`.
    rounds: as if the run had ended after this round; by default after its last.
    last: the number of last rounds to average over, instead of `window`'s own.

  Returns:
    The value, infinite if an evaluation in the window was not finite; None if there was no evaluation.
  """
  if column not in columns or not len(columns["round"]):
    return None
  ended = int(columns["round"][-1]) if rounds is None else min(rounds, int(columns["round"][-1]))
  measured = ~np.isnan(columns[column]) & (columns["round"] <= ended)
  if not measured.any():
    return None
  recent = measured & (columns["round"] > ended - window(ended, last))
  values = columns[column]
  return float(np.mean(values[recent] if recent.any() else values[measured][-1:]))
