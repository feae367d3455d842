"""FedLOMO: variance-reducing momentum at the clients.

Rudrajit Das et al., "Faster Non-Convex Federated Learning via Global and Local Momentum", UAI 2022,
Algorithms 4 and 5 (appendix F). https://arxiv.org/abs/2012.04061

    client:  v₀ = G_i(x);   v ← g(y; b) + v − g(y₋; b), with y₋ the iterate before, both on one batch
             y ← y − η_l v, from y = x;   Δ = x − y
    server:  x ← x − E[Q(Δ)]

The client takes K_i steps, the first along v₀. The first batch matters only with `first_gradient="batch"`,
where v₀ = g(x; b); a data set in a fixed order would then start every round with the same batch.
"""

from collections.abc import Sequence
from typing import NamedTuple

import tensorflow as tf

from tff_momentum import trees, validation
from tff_momentum.algorithm import Algorithm, Exchange, Update, named
from tff_momentum.client import Client
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.transforms import compression
from tff_momentum.trees import Tree

FIRST_GRADIENTS = ("full", "batch")


@named
def fedlomo(
  *,
  client_learning_rate: float | Schedule,
  bits: int = 8,
  norm: str = "l2",
  bucket: int | None = None,
  first_gradient: str = "full",
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedLOMO.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    bits: b ≥ 2 bits of QSGD; 32 disables compression. Default 8; the authors run 8 and 4.
    norm: what QSGD scales a bucket by, its "l2" norm (default) or its largest entry, "max".
    bucket: the number of coordinates that share a norm; all of a tensor by default.
    first_gradient: v₀ is the "full" gradient (default, as printed) or that of the first "batch", as in the
      authors' experiments.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedlomo(client_learning_rate=0.1, bits=4).name
    'fedlomo'
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
  return compression.compressed(plain, compression.qsgd(bits, norm, bucket))


class _Walk(NamedTuple):
  """A local trajectory: the iterate, the iterate before, and the momentum."""

  y: Tree
  y_minus: Tree
  v: Tree


def lomo_deltas(
  client: Client, points: Sequence[Tree], lr: tf.Tensor, first_gradient: str
) -> list[Tree]:
  """Returns Δ = y₀ − y of one trajectory from each point, all on the same batches.

  Args:
    client: the client that trains.
    points: the starting points y₀.
    lr: η_l.
    first_gradient: one of `FIRST_GRADIENTS`.
  """
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
