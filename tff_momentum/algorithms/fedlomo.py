"""FedLOMO (Das et al. 2022, Algorithms 4 and 5): variance-reducing momentum at the clients.

    client:  v₀ = G_i(x);   v ← g(y; b) + v − g(y₋; b), y₋ the iterate before, both on one batch
             y ← y − η_l v, from y = x;   Δ = x − y
    server:  x ← x − E[Q(Δ)]

K_i steps in all. The first goes along v₀; its batch only matters with `first_gradient="batch"`, where
v₀ = g(x; b). A data set in the same order every round would then start every round with one batch.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import tensorflow as tf

from tff_momentum import trees, validation
from tff_momentum.algorithm import Algorithm, Exchange, Update
from tff_momentum.client import Client
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.transforms import compression

FIRST_GRADIENTS = ("full", "batch")


def fedlomo(
  *,
  client_learning_rate: float | Schedule,
  bits: int = 8,
  first_gradient: str = "full",
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedLOMO: the local momentum alone.

  Args:
    client_learning_rate: η_l > 0.
    bits: b ≥ 2 of QSGD, 32 for no compression; the authors use 8 and 4.
    first_gradient: v₀ is the "full" gradient, or that of the first "batch", as the authors run it.
    client_weighting: "uniform" or "num_examples".
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  validation.one_of("first_gradient", first_gradient, FIRST_GRADIENTS)

  def client_update(client, x, state):
    (delta,) = lomo_deltas(client, [x], eta_l(client.round), first_gradient)
    return Update(delta)

  plain = Algorithm(
    init_server=lambda x: x,
    exchanges=(
      Exchange(lambda x, t: x, client_update, lambda x, delta, info: trees.subtract(x, delta)),
    ),
    model=lambda x: x,
    client_weighting=client_weighting,
  )
  return compression.compressed(plain, compression.qsgd(bits))


class _Walk(NamedTuple):
  """A trajectory: the iterate, the one before, and the momentum."""

  y: Any
  y_minus: Any
  v: Any


def lomo_deltas(
  client: Client, points: Sequence[Any], lr: tf.Tensor, first_gradient: str
) -> list[Any]:
  """Δ = y₀ − y of a trajectory from each of the points, all in lock step on the same batches."""
  if first_gradient == "full":
    full = client.full_gradient(*points)
    starts = list(full) if len(points) > 1 else [full]
  else:
    starts = [trees.zeros_like(y) for y in points]

  def step(carry, grad):
    k, walks = carry
    return k + 1, [advance(k, walk, grad) for walk in walks]

  def advance(k, walk, grad):
    g = grad(walk.y)
    v_first = walk.v if first_gradient == "full" else g
    v = trees.map(lambda g, v, g_minus: g + v - g_minus, g, walk.v, grad(walk.y_minus))
    v = trees.where(tf.equal(k, 0), v_first, v)
    return _Walk(trees.map(lambda y, v: y - lr * v, walk.y, v), walk.y, v)

  walks = [_Walk(y, y, v) for y, v in zip(points, starts, strict=True)]
  _, walks = client.steps(step, (tf.zeros([], tf.int32), walks))
  return [trees.subtract(y, walk.y) for y, walk in zip(points, walks, strict=True)]
