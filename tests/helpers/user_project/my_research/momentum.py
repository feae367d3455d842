"""An algorithm of one's own."""

from typing import Any, NamedTuple

import tff_momentum as tfm
from tff_momentum import trees


class ServerState(NamedTuple):
  """The server's state."""

  x: Any
  m: Any


def server_momentum(*, client_learning_rate, beta=0.5, variant="heavy_ball", num_clients):
  """Server momentum with client states that count a client's rounds."""
  if not 0 <= beta < 1:
    raise ValueError(f"beta must be at least 0 and below 1; found {beta}.")
  assert num_clients > 0

  def client_update(client, x, rounds):
    def step(y, grad):
      return trees.map(lambda y, g: y - client_learning_rate * g, y, grad(y))

    # The count makes a resumed run differ unless the clients' states are restored.
    delta = trees.map(lambda d: d / (1.0 + 0.01 * rounds), trees.subtract(x, client.steps(step, x)))
    return tfm.Update(upload=delta, state=rounds + 1.0)

  def server_update(state, delta, info):
    m = trees.map(lambda m, d: beta * m + d, state.m, delta)
    move = m if variant == "heavy_ball" else trees.map(lambda m, d: beta * m + d, m, delta)
    return ServerState(trees.subtract(state.x, move), m)

  return tfm.Algorithm(
    init_server=lambda x: ServerState(x, trees.zeros_like(x)),
    init_client=lambda x, seed: trees.zeros_like(x[0])[0, 0],
    exchanges=(tfm.Exchange(lambda state, t: state.x, client_update, server_update),),
    model=lambda state: state.x,
  )


def no_algorithm(*, client_learning_rate):
  """Returns something else."""
  return {"rate": client_learning_rate}


def with_a_bug(*, client_learning_rate):
  """Raises an error."""
  return client_learning_rate + undefined  # noqa: F821


NOT_A_FUNCTION = 3
