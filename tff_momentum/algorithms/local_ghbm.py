"""Local GHBM (Zaccone et al., Communication-Efficient ... GHBM, §3.4): GHBM without the second download.

A client remembers the model it was given when it last took part, τ_i rounds ago:

    client:  y ← y − η_l g(y; b) + β/(τ_i K_i) (x − the x it was given then), from y = x;  Δ = x − y
    server:  x ← x − η E[Δ]

Rounds count from 1 here, so that 0 is the start. `tau_scaling="participation"` has C = S/N for 1/τ_i.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tff_momentum import trees, validation
from tff_momentum.algorithm import Algorithm, Exchange, Update
from tff_momentum.schedules import Schedule, schedule


class ClientState(NamedTuple):
  """The model that the client goes by, and the round it is from (from 1; 0 before the first)."""

  anchor: Any
  t_i: Any


def local_ghbm(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 1.0,
  beta: float | Schedule = 0.9,
  tau_scaling: str = "elapsed",
  participation: float | None = None,
  client_weighting: str = "num_examples",
) -> Algorithm:
  """Local GHBM: the momentum is how the server's model moved since the client was last there.

  Args:
    client_learning_rate: η_l > 0.
    server_learning_rate: η > 0.
    beta: β in [0, 1].
    tau_scaling: "elapsed" divides by τ_i, "participation" multiplies by C as the authors' code does.
    participation: C in (0, 1], clients per round over all clients; needed for that.
    client_weighting: "num_examples", as the paper runs it, or "uniform".
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  beta = schedule("beta", beta, at_least=0, at_most=1)
  scale = inverse_tau(tau_scaling, participation)

  def client_update(client, x, state):
    lr, t, K = eta_l(client.round), client.round + 1, client.num_steps
    b = tf.where(state.t_i > 0, beta(client.round), 0.0)  # none on the first participation
    factor = b * scale(t - state.t_i) / K

    def step(y, grad):
      return trees.map(
        lambda y, g, x, old: y - lr * g + factor * (x - old), y, grad(y), x, state.anchor
      )

    return Update(trees.subtract(x, client.steps(step, x)), ClientState(x, t))

  return anchored(client_update, lambda x, seed: x, server_learning_rate, client_weighting)


def anchored(client_update, first_anchor, server_learning_rate, client_weighting) -> Algorithm:
  """FedAvg with clients that keep an anchor; a new client's is `first_anchor(x⁰, seed)`."""
  eta = schedule("server_learning_rate", server_learning_rate, above=0)

  def server_update(x, delta, info):
    return trees.map(lambda x, d: x - eta(info.round) * d, x, delta)

  return Algorithm(
    init_server=lambda x: x,
    exchanges=(Exchange(lambda x, t: x, client_update, server_update),),
    model=lambda x: x,
    init_client=lambda x, seed: ClientState(first_anchor(x, seed), tf.zeros([], tf.int32)),
    client_weighting=client_weighting,
  )


def inverse_tau(tau_scaling: str, participation: float | None) -> Callable[[Any], Any]:
  """τ_i -> what stands for 1/τ_i."""
  validation.one_of("tau_scaling", tau_scaling, ("elapsed", "participation"))
  if participation is not None or tau_scaling == "participation":
    validation.number("participation", participation, above=0, at_most=1)
  if tau_scaling == "elapsed":
    return lambda tau_i: 1.0 / tf.cast(tau_i, tf.float32)
  return lambda tau_i: participation
