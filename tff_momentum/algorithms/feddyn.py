"""FedDyn: a dynamic regulariser at each client, and the mean of all at the server.

Durmus Alp Emre Acar et al., "Federated Learning Based on Dynamic Regularization", ICLR 2021, Algorithm 1.
https://arxiv.org/abs/2111.04263

    client:  y ← y − η_l (g(y; b) − g_i + α(y − x)), from y = x;   g_i ← g_i − α(y − x);   Δ = x − y
    server:  h ← h + α (S/N) E[Δ];   x ← E[y] − h/α, with E[y] = x − E[Δ]

h stays the mean of all g_i, where clients never seen count as 0. Weighted by examples, client i uses
α_i = α n̄/n_i (n̄ is the mean number of examples) and the server's means stay uniform: h is then the mean of
the g_i weighted by n_i, and the fixed point is the optimum of the pooled loss.

Deviations: the client sends Δ instead of y, so that compression and clipping see a small difference.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from tff_momentum import trees, validation
from tff_momentum.algorithm import Algorithm, Exchange, Update, named
from tff_momentum.algorithms.scaffold import population
from tff_momentum.client import Gradient
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.trees import Tree


class ServerState(NamedTuple):
  """The model and the mean of the clients' regularisers."""

  x: Tree
  h: Tree


@named
def feddyn(
  *,
  client_learning_rate: float | Schedule,
  num_clients: int,
  alpha: float = 0.1,
  client_weighting: str = "uniform",
  total_examples: int | None = None,
) -> Algorithm:
  """FedDyn.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    num_clients: N, the number of all clients. Required.
    alpha: α > 0; default 0.1, from the grid 0.1, 0.01, 0.001 of GHBM, Table 6.
    client_weighting: "uniform" (default), or "num_examples" for the optimum of the pooled loss.
    total_examples: the examples of all clients together; required when weighting by examples.

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> feddyn(client_learning_rate=0.1, num_clients=100, alpha=0.01).name
    'feddyn'
  """
  return dynamic_regularisation(
    lambda grad, y, t: grad(y),
    client_learning_rate,
    num_clients,
    alpha,
    client_weighting,
    total_examples,
  )


def dynamic_regularisation(
  local_gradient: Callable[[Gradient, Tree, tf.Tensor], Tree],
  client_learning_rate: float | Schedule,
  num_clients: int,
  alpha: float,
  client_weighting: str,
  total_examples: int | None,
) -> Algorithm:
  """FedDyn with any gradient at the clients: local_gradient(grad, y, round) takes the place of g(y; b)."""
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  validation.number("alpha", alpha, above=0)
  mean_examples = population(num_clients, client_weighting, total_examples) / num_clients

  def client_update(client, x, g_i):
    t, lr = client.round, eta_l(client.round)
    by_examples = client_weighting == "num_examples"
    alpha_i = alpha * mean_examples / client.num_examples if by_examples else alpha

    def step(y, grad):
      g = local_gradient(grad, y, t)
      return trees.map(lambda y, g, g_i, x: y - lr * (g - g_i + alpha_i * (y - x)), y, g, g_i, x)

    delta = trees.subtract(x, client.steps(step, x))
    return Update(delta, state=trees.map(lambda g_i, d: g_i + alpha_i * d, g_i, delta))

  def server_update(state, delta, info):
    share = info.weight / num_clients
    h = trees.map(lambda h, d: h + alpha * share * d, state.h, delta)
    return ServerState(trees.map(lambda x, d, h: x - d - h / alpha, state.x, delta, h), h)

  return Algorithm(
    init_server=lambda x: ServerState(x, trees.zeros_like(x)),
    exchanges=(Exchange(lambda state, t: state.x, client_update, server_update),),
    model=lambda state: state.x,
    init_client=lambda x, seed: trees.zeros_like(x),
    client_weighting="uniform",
  )
