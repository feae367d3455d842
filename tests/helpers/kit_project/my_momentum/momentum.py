"""Server momentum; clients remember their last update."""

from typing import Any, NamedTuple

import tensorflow as tf

import tff_momentum as tfm
from tff_momentum import trees


class ServerState(NamedTuple):
  """The model and its momentum."""

  x: Any
  m: Any


def momentum(*, client_learning_rate, beta=0.5, client_weighting="num_examples"):
  """m ← βm + E[Δ]; x ← x − m, where clients average their last two updates."""

  def message(state, t):
    return state.x

  def client_update(client, x, last):
    def step(y, grad):  # y ← y − η_l g(y; b)
      return trees.map(lambda y, g: y - client_learning_rate * g, y, grad(y))

    delta = trees.subtract(x, client.steps(step, x))
    return tfm.Update(upload=trees.map(lambda d, l: (3 * d + l) / 4, delta, last), state=delta)

  def server_update(state, delta, info):
    m = trees.map(lambda m, d: beta * m + d, state.m, delta)
    return ServerState(trees.subtract(state.x, m), m)

  return tfm.Algorithm(
    init_server=lambda x: ServerState(x, trees.zeros_like(x)),
    init_client=lambda x, seed: tf.nest.map_structure(tf.zeros_like, x),
    exchanges=(tfm.Exchange(message, client_update, server_update),),
    model=lambda state: state.x,
    client_weighting=client_weighting,
  )
