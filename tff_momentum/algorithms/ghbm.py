"""Generalized heavy-ball momentum (Zaccone et al., Communication-Efficient ... GHBM, eq. 6).

    download x and x − x₍τ₎, where x₍τ₎ is the model of τ rounds ago
    client:  y ← y − η_l g(y; b) + β/(τ K_i) (x − x₍τ₎), from y = x;  Δ = x − y
    server:  x ← x − η E[Δ]

Deviations: eq. 4 read strictly takes x⁰ for the models before the first; the authors' code, and
`early="zero"` here, have no momentum until τ rounds have passed.
"""

from typing import Any, NamedTuple

import tensorflow as tf

from tff_momentum import trees, validation
from tff_momentum.algorithm import Algorithm, Exchange, Update
from tff_momentum.schedules import Schedule, schedule


class ServerState(NamedTuple):
  """The model, and the packed ones of the last τ rounds, the oldest first."""

  x: Any
  past: Any


class Message(NamedTuple):
  """The model, and how it moved in the last τ rounds."""

  x: Any
  moved: Any


def ghbm(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 1.0,
  beta: float | Schedule = 0.9,
  tau: int = 10,
  early: str = "zero",
  client_weighting: str = "num_examples",
) -> Algorithm:
  """GHBM with a fixed τ.

  Args:
    client_learning_rate: η_l > 0.
    server_learning_rate: η > 0.
    beta: β in [0, 1].
    tau: τ ≥ 1 rounds; near 1/C it covers all clients, 1 is classical momentum.
    early: "zero" or "initial": what stands for x₍τ₎ before τ rounds have passed.
    client_weighting: "num_examples", as the paper runs it, or "uniform".
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  eta = schedule("server_learning_rate", server_learning_rate, above=0)
  beta = schedule("beta", beta, at_least=0, at_most=1)
  validation.integer("tau", tau, at_least=1)
  validation.one_of("early", early, ("zero", "initial"))

  def init_server(x):
    return ServerState(x, (trees.pack(x),) * tau)

  def message(state, t):
    moved = trees.subtract(state.x, trees.unpack(state.past[0], state.x))
    if early == "zero":
      moved = trees.where(t >= tau, moved, trees.zeros_like(moved))
    return Message(state.x, moved)

  def client_update(client, message, state):
    x, moved = message
    lr, b, K = eta_l(client.round), beta(client.round), client.num_steps
    momentum = trees.map(lambda d: b / (tau * K) * d, moved)

    def step(y, grad):
      return trees.map(lambda y, g, m: y - lr * g + m, y, grad(y), momentum)

    return Update(trees.subtract(x, client.steps(step, x)))

  def server_update(state, delta, info):
    x = trees.map(lambda x, d: x - eta(info.round) * d, state.x, delta)
    return ServerState(x, (*state.past[1:], trees.pack(state.x)))

  def momentum(state, t, steps):
    # Under a constant gradient g the model moves by −η η_l K τ g/(1−β) in τ rounds; β = 1 has no such limit.
    b = beta(t)
    settled = tf.where(b < 1, 1 - b, 1.0) / tau
    moved = trees.scale(-settled, message(state, t).moved)
    return trees.per_step(moved, eta(t) * eta_l(t), steps)

  return Algorithm(
    init_server=init_server,
    exchanges=(Exchange(message, client_update, server_update),),
    model=lambda state: state.x,
    client_weighting=client_weighting,
    momentum=momentum,
  )
