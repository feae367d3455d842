"""Parts of AdamW and Muon that several algorithms and base optimizers share.

AdamW divides a bias-corrected mean of gradients by the root of a bias-corrected mean of their squares. Muon
replaces a matrix by a nearly orthogonal one.

    >>> bias_correction(0.9, tf.constant(1.0)).numpy().round(3)
    0.1
    >>> orthogonalised(tf.constant([[3.0, 0.0], [0.0, 2.0]])).numpy().astype(float).round(1).tolist()
    [[1.1, 0.0], [0.0, 0.7]]
"""

import math
from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tff_momentum import trees
from tff_momentum.default_rates import LocalSgd, Rates
from tff_momentum.trees import Tree

# The quintic iteration of Muon (Keller Jordan et al., 2024) and its number of repetitions.
NEWTON_SCHULZ = (3.4445, -4.7750, 2.0315)
ITERATIONS = 5


def unit_step_rates(sgd: LocalSgd, hyperparameters: Mapping[str, Any]) -> Rates:
  """A step moves weights by about the rate whatever the gradient, so the rate is a hundredth of SGD's."""
  return {"client_learning_rate": sgd.learning_rate / 100}


def orthogonal_step_rates(sgd: LocalSgd, hyperparameters: Mapping[str, Any]) -> Rates:
  """An orthogonal step has singular values near 1, so its entries are small: the rate is a tenth of SGD's."""
  return {"client_learning_rate": sgd.learning_rate / 10}


def bias_correction(beta: float, steps: tf.Tensor) -> tf.Tensor:
  """1 − β^steps, accurate also for β near 1."""
  return -tf.math.expm1(steps * math.log(beta)) if beta else tf.ones_like(steps)


def first_moment(m: Tree, g: Tree, beta: float) -> Tree:
  """m ← βm + (1−β)g."""
  return trees.map(lambda m, g: beta * m + (1 - beta) * g, m, g)


def second_moment(v: Tree, g: Tree, beta: float) -> Tree:
  """v ← βv + (1−β)g²."""
  return trees.map(lambda v, g: beta * v + (1 - beta) * tf.square(g), v, g)


def adam_direction(
  m: Tree, v: Tree, m_correction: tf.Tensor, v_correction: tf.Tensor, epsilon: float
) -> Tree:
  """m/m_correction / (√(v/v_correction) + ε)."""
  return trees.map(lambda m, v: m / m_correction / (tf.sqrt(v / v_correction) + epsilon), m, v)


def orthogonalised(matrix: tf.Tensor) -> tf.Tensor:
  """NS₅: five Newton–Schulz iterations, which bring the singular values near 1.

  A tensor of a rank above 2 counts as a matrix with its last axis as columns. Small singular values grow by a
  factor of at most 485, so a matrix of low rank stays of low rank.
  """
  x = tf.reshape(matrix, [-1, matrix.shape[-1]])
  tall = x.shape[0] > x.shape[1]
  x = x / (tf.norm(x) + 1e-7)
  x = tf.transpose(x) if tall else x
  a, b, c = NEWTON_SCHULZ
  for _ in range(ITERATIONS):
    gram = tf.matmul(x, x, transpose_b=True)
    x = a * x + tf.matmul(b * gram + c * tf.matmul(gram, gram), x)
  return tf.reshape(tf.transpose(x) if tall else x, matrix.shape)


def matrices(tree: Tree) -> tuple[tf.Tensor, ...]:
  """The tensors of rank 2 or more, which Muon orthogonalises."""
  return tuple(leaf for leaf in tf.nest.flatten(tree) if leaf.shape.rank >= 2)


def vectors(tree: Tree) -> tuple[tf.Tensor, ...]:
  """The tensors of rank 0 or 1."""
  return tuple(leaf for leaf in tf.nest.flatten(tree) if leaf.shape.rank < 2)


def joined(matrices: Tree, vectors: Tree, like: Tree) -> Tree:
  """Puts matrices and vectors back into their places in the structure of `like`."""
  parts = iter(tf.nest.flatten(matrices)), iter(tf.nest.flatten(vectors))
  return trees.map(lambda leaf: next(parts[leaf.shape.rank < 2]), like)


def muon_scale(shape: tf.TensorShape) -> float:
  """r: √max(1, outputs/inputs) for a Keras kernel (inputs, outputs), 1 for convolutions."""
  return math.sqrt(max(1.0, shape[1] / shape[0])) if shape.rank == 2 else 1.0
