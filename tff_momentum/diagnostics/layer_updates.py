"""The server's update, tensor by tensor: its norm in each layer."""

import re
from collections.abc import Sequence

import numpy as np

from tff_momentum.models.model import Model, Weights


def update(before: Weights, after: Weights) -> list[np.ndarray]:
  """x⁺ − x for each tensor, in float64 because the two models are close."""
  return [
    np.asarray(a, np.float64) - np.asarray(b, np.float64)
    for b, a in zip(before, after, strict=True)
  ]


def update_norms(names: Sequence[str], parts: Sequence[np.ndarray]) -> dict[str, float]:
  """The norm of each tensor's update, by the tensor's name."""
  return {name: float(np.linalg.norm(part)) for name, part in zip(names, parts, strict=True)}


def layer_names(model: Model) -> list[str]:
  """A name for each of the model's tensors: Keras's, or its position.

  Keras numbers layers across all models of a process; here the numbers count within the model.
  """
  if model.keras is None:
    return [str(number) for number in range(len(model.initial_weights))]
  names = [
    re.sub(r"_\d+(?=/|$)", "", weight.name.split(":")[0])
    for weight in model.keras().trainable_weights
  ]
  seen = [names[:i].count(name) for i, name in enumerate(names)]
  return [f"{name}_{again}" if again else name for name, again in zip(names, seen, strict=True)]
