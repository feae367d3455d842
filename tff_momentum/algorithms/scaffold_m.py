"""SCAFFOLD-M: SCAFFOLD's control variates and FedCM's momentum in every local step.

Ziheng Cheng, Xinmeng Huang, Pengfei Wu, Kun Yuan, "Momentum Benefits Non-IID Federated Learning Simply and
Provably", ICLR 2024. https://arxiv.org/abs/2306.16504

    message: x, d = αc + (1−α)m
    client:  y ← y − η_l (α(g(y; b) − c_i) + d), from y = x;   Δ = x − y
             c_i⁺ = the mean of its K_i gradients g(y; b)
    server:  m ← E[Δ/(η_l K_i)] = αE[c_i⁺ − c_i] + d
             x ← x − η E[Δ];   c ← c + (W/W_all) E[c_i⁺ − c_i]

The paper's β is α here, the weight of the client's own gradient, as in `fedcm`; its server rate is η η_l K.
W/W_all is that of `scaffold`. α = 1 is SCAFFOLD with option II. The clients get the sum d instead of c and m,
which saves a model, and the server computes m from E[c_i⁺ − c_i], so that K_i need not travel.

Deviations: m and all c_i start at 0; the paper's theory also allows a first m from a batch. The rule is the
paper's; its printed algorithm was not at hand to compare line by line.
"""

from typing import NamedTuple

import tensorflow as tf

from tff_momentum import trees
from tff_momentum.algorithm import Algorithm, Averaging, Exchange, Update, named
from tff_momentum.algorithms.fedcm import frozen_momentum
from tff_momentum.algorithms.scaffold import population
from tff_momentum.default_rates import derives_rates
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.trees import Tree


class ServerState(NamedTuple):
  """The model, the server's control variate and the momentum, in the units of a gradient."""

  x: Tree
  c: Tree
  m: Tree


class Message(NamedTuple):
  """The model and d, the part of a local step that all clients share."""

  x: Tree
  d: Tree


class Upload(NamedTuple):
  """The client's update and the change of its control variate."""

  delta: Tree
  dc: Tree


@named
@derives_rates(frozen_momentum)
def scaffold_m(
  *,
  client_learning_rate: float | Schedule,
  num_clients: int,
  alpha: float | Schedule = 0.1,
  server_learning_rate: float | Schedule = 1.0,
  client_weighting: str = "uniform",
  total_examples: int | None = None,
) -> Algorithm:
  """SCAFFOLD-M.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    num_clients: N, the number of all clients. Required.
    alpha: α in (0, 1], the weight of the client's own gradient; 1 is SCAFFOLD. Default 0.1, as for `fedcm`.
    server_learning_rate: η > 0, a number or a schedule; default 1.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".
    total_examples: the examples of all clients together; required when weighting by examples.

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> scaffold_m(client_learning_rate=0.1, num_clients=100, alpha=0.1).name
    'scaffold_m'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  eta = schedule("server_learning_rate", server_learning_rate, above=0)
  alpha = schedule("alpha", alpha, above=0, at_most=1)
  everyone = population(num_clients, client_weighting, total_examples)

  def shared(state, t):
    return trees.map(lambda c, m: alpha(t) * c + (1 - alpha(t)) * m, state.c, state.m)

  def client_update(client, message, c_i):
    x, d = message
    lr, own = eta_l(client.round), alpha(client.round)

    def step(carry, grad):
      y, total = carry
      g = grad(y)
      y = trees.map(lambda y, g, c_i, d: y - lr * (own * (g - c_i) + d), y, g, c_i, d)
      return y, trees.add(total, g)

    y, total = client.steps(step, (x, trees.zeros_like(x)))
    c_new = trees.map(lambda g: tf.math.divide_no_nan(g, client.num_steps), total)
    return Update(Upload(trees.subtract(x, y), trees.subtract(c_new, c_i)), state=c_new)

  def server_update(state, mean, info):
    t, share = info.round, info.weight / everyone
    return ServerState(
      x=trees.map(lambda x, d: x - eta(t) * d, state.x, mean.delta),
      c=trees.map(lambda c, dc: c + share * dc, state.c, mean.dc),
      m=trees.map(lambda dc, d: alpha(t) * dc + d, mean.dc, shared(state, t)),
    )

  return Algorithm(
    init_server=lambda x: ServerState(x, trees.zeros_like(x), trees.zeros_like(x)),
    exchanges=(
      Exchange(lambda state, t: Message(state.x, shared(state, t)), client_update, server_update),
    ),
    model=lambda state: state.x,
    init_client=lambda x, seed: trees.zeros_like(x),
    client_weighting=client_weighting,
    momentum=lambda state, t, steps: state.m,
    averaging=Averaging(delta="delta", x="x"),
  )
