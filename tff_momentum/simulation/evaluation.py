"""The model's loss and metrics on data that the server holds."""

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from tff_momentum import trees
from tff_momentum.models.model import Model


def evaluator(model: Model, data: tf.data.Dataset) -> Callable[[Any], dict[str, float]]:
  """Returns (weights) -> the values to report for the whole of `data`; traced once."""

  @tf.function(autograph=False)
  def evaluate(weights):
    tally = data.reduce(
      model.empty_tally(), lambda tally, batch: trees.add(tally, model.evaluate(weights, batch))
    )
    return model.finalize(tally)

  def report(weights: Any) -> dict[str, float]:
    values = evaluate(tuple(tf.convert_to_tensor(w) for w in weights))
    return {name: float(value) for name, value in values.items()}

  return report
