"""When a run has diverged. Training, sweeps and reports all ask here."""

import math
from collections.abc import Mapping

from experiments.runs.columns import LOSSES


def has_diverged(row: Mapping[str, float | None]) -> bool:
  """Whether one of a round's losses is not finite, or none of its clients had a finite update.

  Only the loss counts: a metric such as r² may be undefined on a small cohort whose training is fine.

  Args:
    row: one row of metrics.csv; a value that was not measured is missing or None.
  """
  losses = [value for name in LOSSES if (value := row.get(name)) is not None]
  all_rejected = bool(row.get("clients/non_finite")) and not row.get("clients")
  return all_rejected or not all(math.isfinite(loss) for loss in losses)
