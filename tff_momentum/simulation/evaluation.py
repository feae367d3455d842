"""The model's loss and metrics on test and validation data."""

from collections.abc import Callable
from typing import TypeAlias

import tensorflow as tf

from tff_momentum import trees
from tff_momentum.models.model import Model, Weights

ColumnEvaluator: TypeAlias = Callable[[Weights], dict[str, float]]  # weights -> values by column


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


def column_evaluator(
  model: Model,
  evaluation: Callable[[int], tf.data.Dataset],
  validation: Callable[[int], tf.data.Dataset] | None = None,
  batch_size: int = 256,
) -> ColumnEvaluator:
  """Returns a function that evaluates weights under the column names of `metrics.csv`.

  Args:
    model: computes the loss and the metrics of a batch.
    evaluation: batch size -> the batches of the test data, for the columns `eval/...`.
    validation: batch size -> the batches of the validation data, for the columns `validation/...`.
    batch_size: examples in a batch; affects speed only.

  Returns:
    weights -> values by column, without the number of examples.
  """
  evaluators = {"eval": evaluator(model, evaluation(batch_size))}
  if validation is not None:
    evaluators["validation"] = evaluator(model, validation(batch_size))

  def evaluate(weights: Weights) -> dict[str, float]:
    return {
      f"{kind}/{name}": value
      for kind, report in evaluators.items()
      for name, value in report(weights).items()
      if name != "num_examples"
    }

  return evaluate
