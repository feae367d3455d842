"""GHBM: generalized heavy-ball momentum over the last τ rounds.

Riccardo Zaccone, Carlo Masone, Marco Ciccone, "Communication-Efficient Heterogeneous Federated Learning with
Generalized Heavy-Ball Momentum", arXiv 2023, eq. 6. https://arxiv.org/abs/2311.18578

    clients download x and x − x₍τ₎, where x₍τ₎ is the model of τ rounds ago
    client:  y ← y − η_l g(y; b) + β/(τ K_i) (x − x₍τ₎), from y = x;   Δ = x − y
    server:  x ← x − η E[Δ]

Deviations: eq. 4, read strictly, takes x⁰ for the models before the first. The authors' code, and
`early="zero"` here, has no momentum until τ rounds have passed.
"""

from typing import NamedTuple

import tensorflow as tf

from tff_momentum import trees, validation
from tff_momentum.algorithm import Algorithm, Exchange, Update, named
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.trees import Tree


class ServerState(NamedTuple):
  """The model, and the packed models of the last τ rounds, oldest first."""

  x: Tree
  past: Tree


class Message(NamedTuple):
  """The model, and its change over the last τ rounds."""

  x: Tree
  moved: Tree


@named
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
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    server_learning_rate: η > 0, a number or a schedule; default 1.
    beta: β in [0, 1]; default 0.9, as in GHBM, Table 6.
    tau: τ ≥ 1 rounds; 1 is classical momentum, and about 1/C covers all clients. Default 10, from the grid 5,
      10, 20, 40 of GHBM, Table 6.
    early: what stands for x − x₍τ₎ before τ rounds have passed: "zero" (default, the authors' code) or
      "initial", which takes x⁰ for x₍τ₎ (eq. 4).
    client_weighting: the weights of E[·], "num_examples" (default, as in the paper) or "uniform".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> ghbm(client_learning_rate=0.1, tau=5).name
    'ghbm'
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
