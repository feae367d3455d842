"""The model's loss and metrics on the server's test data."""

from collections.abc import Callable

import tensorflow as tf

from tff_momentum import trees
from tff_momentum.models.model import Model, Weights


def evaluator(model: Model, data: tf.data.Dataset) -> Callable[[Weights], dict[str, float]]:
  """Returns a function that evaluates weights on all of `data`; it is traced once.

  Args:
    model: computes the loss and the metrics of a batch.
    data: batches of the model's `batch_spec`.

  Returns:
    weights -> the mean loss, the model's metrics and the number of examples.
  """

  @tf.function(autograph=False)
  def evaluate(weights):
    tally = data.reduce(
      model.empty_tally(), lambda tally, batch: trees.add(tally, model.evaluate(weights, batch))
    )
    return model.finalize(tally)

  def report(weights: Weights) -> dict[str, float]:
    values = evaluate(tuple(tf.convert_to_tensor(w) for w in weights))
    return {name: float(value) for name, value in values.items()}

  return report
