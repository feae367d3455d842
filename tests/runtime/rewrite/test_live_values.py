"""Which arguments of a function its results need."""

import tensorflow as tf

from tff_momentum.runtime.rewrite.live_values import LiveValues

NUMBER = tf.TensorSpec([], tf.float32)


def library_of(function, count: int):
  concrete = tf.function(function, autograph=False).get_concrete_function(*[NUMBER] * count)
  name = concrete.function_def.signature.name
  functions = [concrete.function_def, *concrete.graph.as_graph_def().library.function]
  return name, LiveValues({each.signature.name: each for each in functions})


def test_results_need_what_they_are_computed_from():
  name, live = library_of(lambda a, b, c: (a + b, b * 2.0, c), 3)
  assert live.needed(name, [0]) == {0, 1}
  assert live.needed(name, [1]) == {1}
  assert live.needed(name, [2]) == {2}
  assert live.needed(name, []) == set()


def test_calls_are_followed():
  inner = tf.function(lambda a, b: (a + 1.0, b + 1.0), autograph=False)
  name, live = library_of(inner.python_function, 2)
  assert live.needed(name, [0]) == {0}

  def outer(a, b, c):
    first, second = inner(a, b)
    return first, second * c

  name, live = library_of(outer, 3)
  assert live.needed(name, [0]) == {0}
  assert live.needed(name, [1]) == {1, 2}


def test_side_effects_are_needed():
  def prints(a, b):
    tf.print(b)
    return a

  name, live = library_of(prints, 2)
  assert live.needed(name, [0]) == {0, 1}
