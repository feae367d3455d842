"""The variance of the server's update over resampled cohorts (FedGLOMO)."""

from collections.abc import Sequence

import numpy as np


def update_variance(updates: Sequence[Sequence[np.ndarray]]) -> float:
  """Σ_r ‖Δ_r − Δ̄‖² / (R − 1) for R updates, each from its own cohort: the trace of their covariance.

  Example:
    >>> import numpy as np
    >>> from tff_momentum.diagnostics.update_variance import update_variance
    >>> update_variance([[np.array([1.0, 0.0])], [np.array([3.0, 0.0])]])
    2.0
  """
  stacked = np.stack([np.concatenate([np.ravel(part) for part in each]) for each in updates])
  return float(np.sum(np.var(stacked, axis=0, ddof=1)))
