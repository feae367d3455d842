"""Arithmetic on weight structures: the verbs that the algorithms are written in.

A tree is a tensor or any nest of tensors (tuples, named tuples, lists, dicts). The papers' equations are
element-wise, so one verb does almost everything:

    >>> y, g = (tf.constant([1.0, 2.0]), tf.constant(3.0)), (tf.constant([0.5, 0.5]), tf.constant(1.0))
    >>> y = map(lambda y, g: y - 0.1 * g, y, g)        # y ← y − η g
    >>> [leaf.numpy().tolist() for leaf in y]
    [[0.949999988079071, 1.9500000476837158], 2.9000000953674316]
"""

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

Tree = Any


def map(function: Callable[..., Any], tree: Tree, *others: Tree) -> Tree:
  """Applies `function` leaf by leaf; all trees must have the structure of the first."""
  leaves = [tf.nest.flatten(other) for other in (tree, *others)]
  return tf.nest.pack_sequence_as(tree, [function(*each) for each in zip(*leaves, strict=True)])


def zeros_like(tree: Tree) -> Tree:
  """Returns zeros in the structure of `tree`."""
  return map(tf.zeros_like, tree)


def add(a: Tree, b: Tree) -> Tree:
  """a + b."""
  return map(tf.add, a, b)


def subtract(a: Tree, b: Tree) -> Tree:
  """a − b."""
  return map(tf.subtract, a, b)


def scale(factor: float | tf.Tensor, tree: Tree) -> Tree:
  """factor · tree; the factor is a number or a scalar tensor."""
  return map(lambda leaf: tf.cast(factor, leaf.dtype) * leaf, tree)


def per_step(tree: Tree, rate: float | tf.Tensor, steps: float | tf.Tensor) -> Tree:
  """tree / (rate · steps): a client's total update as a mean gradient; 0 if the divisor is 0."""
  return map(lambda leaf: tf.math.divide_no_nan(leaf, tf.cast(rate * steps, leaf.dtype)), tree)


def where(condition: tf.Tensor, a: Tree, b: Tree) -> Tree:
  """`a` if the scalar `condition` holds, else `b`; the tree that is not chosen may contain NaN."""
  # `tf.where` would copy the chosen tree; Select passes it on.
  return map(lambda x, y: tf.raw_ops.Select(condition=condition, x=x, y=y), a, b)


def pack(tree: Tree) -> tuple[tf.Tensor, ...]:
  """Returns the same numbers as one vector for each dtype, for state that keeps many copies of a tree."""
  leaves = tf.nest.flatten(tree)
  return tuple(
    tf.concat([tf.reshape(leaf, [-1]) for leaf in leaves if leaf.dtype == dtype], axis=0)
    for dtype in _dtypes(leaves)
  )


def unpack(vectors: tuple[tf.Tensor, ...], like: Tree) -> Tree:
  """Returns the tree that was packed, in the structure and shapes of `like`."""
  leaves = tf.nest.flatten(like)
  parts = {}
  for dtype, vector in zip(_dtypes(leaves), vectors, strict=True):
    sizes = [math.prod(leaf.shape) for leaf in leaves if leaf.dtype == dtype]
    parts[dtype] = iter(tf.split(vector, sizes))
  return map(lambda leaf: tf.reshape(next(parts[leaf.dtype]), leaf.shape), like)


def _dtypes(leaves: list[tf.Tensor]) -> list[tf.DType]:
  return list(dict.fromkeys(leaf.dtype for leaf in leaves))


def dot(a: Tree, b: Tree) -> tf.Tensor:
  """The inner product of two trees taken as vectors."""
  return tf.add_n(
    [tf.reduce_sum(x * y) for x, y in zip(tf.nest.flatten(a), tf.nest.flatten(b), strict=True)]
  )


def norm(tree: Tree) -> tf.Tensor:
  """The Euclidean norm of a tree taken as a vector."""
  return tf.sqrt(dot(tree, tree))


def is_finite(tree: Tree) -> tf.Tensor:
  """Whether no leaf contains an infinity or NaN, judged by the leaves' sums, which need a single read."""
  sums = [tf.reduce_sum(leaf) for leaf in tf.nest.flatten(tree) if leaf.dtype.is_floating]
  return tf.reduce_all([tf.math.is_finite(total) for total in sums]) if sums else tf.constant(True)
