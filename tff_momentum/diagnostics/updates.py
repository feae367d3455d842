"""The server's update: its variance over resampled cohorts (FedGLOMO), and the names of its parts."""

import re
from collections.abc import Sequence
from typing import Any

import numpy as np

from tff_momentum.models.model import Model


def variance(updates: Sequence[Any]) -> float:
  """Σ_r ‖Δ_r − Δ̄‖² / (R − 1) of R updates, each from a cohort of its own: the trace of their covariance."""
  stacked = np.stack([_flat(update) for update in updates])
  return float(np.sum(np.var(stacked, axis=0, ddof=1)))


def moved(before: Any, after: Any) -> list[np.ndarray]:
  """x⁺ − x, tensor by tensor, in float64: the difference of two near models."""
  return [
    np.asarray(a, np.float64) - np.asarray(b, np.float64)
    for b, a in zip(before, after, strict=True)
  ]


def layer_names(model: Model) -> list[str]:
  """A name for each of the model's tensors: Keras's, or its number.

  Keras numbers the layers of all models that were ever made; here each model's are numbered by itself.
  """
  if model.keras is None:
    return [str(number) for number in range(len(model.initial_weights))]
  names = [
    re.sub(r"_\d+(?=/|$)", "", weight.name.split(":")[0])
    for weight in model.keras().trainable_weights
  ]
  seen = [names[:i].count(name) for i, name in enumerate(names)]
  return [f"{name}_{again}" if again else name for name, again in zip(names, seen, strict=True)]


def _flat(update: Sequence[np.ndarray]) -> np.ndarray:
  return np.concatenate([np.ravel(part) for part in update])
