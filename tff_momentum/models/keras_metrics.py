"""Metrics as functions of (labels, predictions) that return a value per example.

Keras metric objects keep running sums in variables, which a pure model cannot have. Those that are a mean
over examples, such as `SparseCategoricalAccuracy`, wrap a function that a model can use instead.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import tensorflow as tf
from keras.src.utils import losses_utils

# (labels, predictions) -> a value per example, or a pair (values, weights) to weight the examples.
Metric: TypeAlias = Callable[[Any, Any], Any]


def by_name(metrics: Mapping[str, Any] | Iterable[Any] | None) -> dict[str, Metric]:
  """The metrics' functions by name.

  Args:
    metrics: functions or Keras metric objects, by name or as a list; in a list, a metric object has its own
      name and a function the name that it was defined with.

  Raises:
    ValueError: an element is no metric, no mean over examples, or has the name of another.

  >>> list(by_name([tf.keras.metrics.SparseCategoricalAccuracy(name="accuracy")]))
  ['accuracy']
  >>> list(by_name([tf.keras.metrics.sparse_categorical_accuracy]))
  ['sparse_categorical_accuracy']
  """
  if metrics is None:
    return {}
  if isinstance(metrics, Mapping):
    return {name: _function(metric) for name, metric in metrics.items()}
  if isinstance(metrics, str) or not isinstance(metrics, Iterable):
    raise ValueError(
      f"Expected metrics as a list or by name in a dictionary; found {metrics!r}: write [metric] or "
      "{'name': metric}."
    )
  found: dict[str, Metric] = {}
  for metric in metrics:
    function = _function(metric)
    name = str(getattr(metric, "name", getattr(metric, "__name__", type(metric).__name__)))
    if not name.isidentifier():
      raise ValueError(
        f"Expected a metric with a name; found {name!r}: give the metrics as a dictionary by name."
      )
    if name in found:
      raise ValueError(
        f"Expected metrics with different names; found {name!r} twice: give the metrics as a dictionary "
        "by name."
      )
    found[name] = function
  return found


def _function(metric: Any) -> Metric:
  if isinstance(metric, tf.keras.metrics.MeanMetricWrapper):

    def values(labels, predictions):
      # As Keras does it: one dtype, and a column of predictions does not broadcast against a row of labels.
      labels, predictions = (tf.cast(value, metric.dtype) for value in (labels, predictions))
      predictions, labels = losses_utils.squeeze_or_expand_dimensions(predictions, labels)
      return metric._fn(labels, predictions, **metric._fn_kwargs)

    return values
  if isinstance(metric, tf.keras.metrics.Metric):
    raise ValueError(
      f"Expected a metric that is a mean over examples, such as SparseCategoricalAccuracy; found "
      f"{type(metric).__name__}, which cannot be summed over clients: give a function of (labels, "
      "predictions) that returns a value per example."
    )
  if not callable(metric):
    raise ValueError(
      f"Expected a metric: a function of (labels, predictions), or a Keras metric object; found {metric!r}, "
      "for instance instead of tf.keras.metrics.SparseCategoricalAccuracy()."
    )
  return metric
