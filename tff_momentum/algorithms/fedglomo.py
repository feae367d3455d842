"""FedGLOMO: variance-reducing momentum at the clients and at the server.

Rudrajit Das et al., "Faster Non-Convex Federated Learning via Global and Local Momentum", UAI 2022,
Algorithms 1 and 2. https://arxiv.org/abs/2012.04061

    client:  FedLOMO's steps from x give Δ, and from x₋ (last round's model) Δ̂, on the same batches
    server:  u ← βE[Q(Δ)] + (1−β)(u + E[Q(Δ − Δ̂)]), with β = 1 in the first round;   x ← x − u
"""

from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from tff_momentum import trees, validation
from tff_momentum.algorithm import Algorithm, Exchange, Update, named
from tff_momentum.algorithms.fedlomo import FIRST_GRADIENTS, lomo_deltas
from tff_momentum.default_rates import LocalSgd, Rates, derives_rates
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.transforms import compression
from tff_momentum.trees import Tree


class ServerState(NamedTuple):
  """The model, last round's model, the server's momentum, and whether a round has taken place."""

  x: Tree
  x_minus: Tree
  u: Tree
  started: tf.Tensor


class Message(NamedTuple):
  """The model, and last round's model."""

  x: Tree
  x_minus: Tree


class Upload(NamedTuple):
  """Q(Δ) and Q(Δ − Δ̂)."""

  delta: Tree
  change: Tree


def fine_quantisation(sgd: LocalSgd, hyperparameters: Mapping[str, Any]) -> Rates:
  """Errors stay in the server's momentum: half the rate of SGD, and QSGD with a scale per 512 entries."""
  return {"client_learning_rate": sgd.learning_rate / 2, "norm": "max", "bucket": 512}


@named
@derives_rates(fine_quantisation)
def fedglomo(
  *,
  client_learning_rate: float | Schedule,
  beta: float | Schedule = 0.2,
  bits: int = 4,
  norm: str = "l2",
  bucket: int | None = None,
  first_gradient: str = "full",
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedGLOMO.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    beta: β in (0, 1], the weight of this round's update; 1 is FedLOMO. Default 0.2.
    bits: b ≥ 2 bits of QSGD in each of the two messages; 32 disables compression. Default 4; the authors run
      4 and 2.
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
    >>> fedglomo(client_learning_rate=0.1, beta=0.5).name
    'fedglomo'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  beta = schedule("beta", beta, above=0, at_most=1)
  validation.one_of("first_gradient", first_gradient, FIRST_GRADIENTS)

  def client_update(client, message, state):
    delta, delta_hat = lomo_deltas(client, message, eta_l(client.round), first_gradient)
    return Update(Upload(delta, trees.subtract(delta, delta_hat)))

  def server_update(state, mean, info):
    b = tf.where(state.started, beta(info.round), 1.0)
    u = trees.map(lambda u, d, c: b * d + (1 - b) * (u + c), state.u, mean.delta, mean.change)
    return ServerState(trees.subtract(state.x, u), state.x, u, tf.constant(True))

  plain = Algorithm(
    init_server=lambda x: ServerState(x, x, trees.zeros_like(x), tf.constant(False)),
    exchanges=(
      Exchange(lambda state, t: Message(state.x, state.x_minus), client_update, server_update),
    ),
    model=lambda state: state.x,
    client_weighting=client_weighting,
    momentum=lambda state, t, steps: trees.per_step(state.u, eta_l(t), steps),
  )
  return compression.compressed(plain, compression.qsgd(bits, norm, bucket))
