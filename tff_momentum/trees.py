"""Arithmetic on weight structures: the few verbs the algorithms are written in.

A tree is a tensor or any nest of them (tuples, named tuples, lists, dicts). The papers' equations are
element-wise, so one verb does almost everything::

    y = trees.map(lambda y, g: y - lr * g, y, g)        # y ← y − η g
"""

import math
from collections.abc import Callable
from typing import Any

import tensorflow as tf

Tree = Any


def map(function: Callable[..., Any], tree: Tree, *others: Tree) -> Tree:
  """Applies `function` leaf by leaf; all trees have the structure of the first."""
  leaves = [tf.nest.flatten(other) for other in (tree, *others)]
  return tf.nest.pack_sequence_as(tree, [function(*each) for each in zip(*leaves, strict=True)])


def zeros_like(tree: Tree) -> Tree:
  """A tree of zeros in the shape of `tree`."""
  return map(tf.zeros_like, tree)


def add(a: Tree, b: Tree) -> Tree:
  """a + b."""
  return map(tf.add, a, b)


def subtract(a: Tree, b: Tree) -> Tree:
  """a − b."""
  return map(tf.subtract, a, b)


def scale(factor: Any, tree: Tree) -> Tree:
  """factor · tree; the factor is a number or a scalar tensor."""
  return map(lambda leaf: tf.cast(factor, leaf.dtype) * leaf, tree)


def per_step(tree: Tree, rate: Any, steps: Any) -> Tree:
  """tree / (rate · steps): what a client's whole move amounts to for each of its steps, a gradient."""
  return map(lambda leaf: tf.math.divide_no_nan(leaf, tf.cast(rate * steps, leaf.dtype)), tree)


def where(condition: tf.Tensor, a: Tree, b: Tree) -> Tree:
  """`a` if the scalar `condition` holds, else `b`; what is not chosen may hold NaN."""
  # `tf.where` would make a copy of the chosen one, this hands it on.
  return map(lambda x, y: tf.raw_ops.Select(condition=condition, x=x, y=y), a, b)


def pack(tree: Tree) -> tuple[tf.Tensor, ...]:
  """The same numbers in few tensors, a vector for each dtype: to be kept many times over."""
  leaves = tf.nest.flatten(tree)
  return tuple(
    tf.concat([tf.reshape(leaf, [-1]) for leaf in leaves if leaf.dtype == dtype], axis=0)
    for dtype in _dtypes(leaves)
  )


def unpack(vectors: tuple[tf.Tensor, ...], like: Tree) -> Tree:
  """The tree that was packed, in the structure and shapes of `like`."""
  leaves = tf.nest.flatten(like)
  parts = {}
  for dtype, vector in zip(_dtypes(leaves), vectors, strict=True):
    sizes = [math.prod(leaf.shape) for leaf in leaves if leaf.dtype == dtype]
    parts[dtype] = iter(tf.split(vector, sizes))
  return map(lambda leaf: tf.reshape(next(parts[leaf.dtype]), leaf.shape), like)


def _dtypes(leaves: list[tf.Tensor]) -> list[tf.DType]:
  return list(dict.fromkeys(leaf.dtype for leaf in leaves))


def dot(a: Tree, b: Tree) -> tf.Tensor:
  """The inner product of two trees seen as vectors."""
  return tf.add_n([tf.reduce_sum(x * y) for x, y in zip(*map_leaves(a, b), strict=True)])


def norm(tree: Tree) -> tf.Tensor:
  """The Euclidean norm of a tree seen as one vector."""
  return tf.sqrt(dot(tree, tree))


def is_finite(tree: Tree) -> tf.Tensor:
  """Whether no leaf holds an infinity or NaN, told by the leaves' sums, which is one reading pass."""
  sums = [tf.reduce_sum(leaf) for leaf in tf.nest.flatten(tree) if leaf.dtype.is_floating]
  return tf.reduce_all([tf.math.is_finite(total) for total in sums]) if sums else tf.constant(True)


def map_leaves(*trees: Tree) -> list[list[tf.Tensor]]:
  """Each tree's leaves, in one common order."""
  return [tf.nest.flatten(tree) for tree in trees]
