"""FedCM: clients mix the server's last mean gradient into every local step.

Jing Xu, Sen Wang, Liwei Wang, Andrew Chi-Chih Yao, "FedCM: Federated Learning with Client-level Momentum",
arXiv 2021, Algorithm 1. https://arxiv.org/abs/2106.10874
Also known as FedAvg-M, with β for α: Ziheng Cheng et al., "Momentum Benefits Non-IID Federated Learning
Simply and Provably", ICLR 2024. https://arxiv.org/abs/2306.16504

    client:  y ← y − η_l (α g(y; b) + (1−α) m), from y = x;   Δ = x − y
    server:  m ← E[Δ/(η_l K_i)];   x ← x − η E[Δ]
"""

from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from tff_momentum import trees, wire_bytes
from tff_momentum.algorithm import Algorithm, Averaging, Exchange, Update, named
from tff_momentum.client import Gradient
from tff_momentum.default_rates import LocalSgd, Rates, derives_rates, frozen_momentum_rate
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.trees import Tree


class ServerState(NamedTuple):
  """The model and the momentum, in the units of a gradient; both are sent to the clients."""

  x: Tree
  m: Tree


class Upload(NamedTuple):
  """Δ and the mean step Δ/(η_l K_i); the server averages each.

  A client sends Δ and the number K_i, from which the server computes the mean step. Both would travel only
  under an aggregation that hides single clients.
  """

  delta: Tree
  mean_step: Tree


def frozen_momentum(sgd: LocalSgd, hyperparameters: Mapping[str, Any]) -> Rates:
  """The momentum is fixed for K local steps and pushes K times, so the rate is 4/K times SGD's."""
  alpha = schedule("alpha", hyperparameters["alpha"]).high
  return {"client_learning_rate": frozen_momentum_rate(sgd, fresh=alpha, gain=1.0)}


@named
@derives_rates(frozen_momentum)
def fedcm(
  *,
  client_learning_rate: float | Schedule,
  alpha: float | Schedule = 0.1,
  server_learning_rate: float | Schedule = 1.0,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedCM, also known as FedAvg-M.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    alpha: α in (0, 1], the weight of the client's own gradient; 1 is FedAvg. Default 0.1, from the grid 0.05,
      0.1, 0.5 of GHBM, Table 6.
    server_learning_rate: η > 0, a number or a schedule; default 1.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedcm(client_learning_rate=0.1, alpha=0.05).name
    'fedcm'
  """
  return client_momentum(
    lambda grad, y, t: grad(y), client_learning_rate, alpha, server_learning_rate, client_weighting
  )


def client_momentum(
  local_gradient: Callable[[Gradient, Tree, tf.Tensor], Tree],
  client_learning_rate: float | Schedule,
  alpha: float | Schedule,
  server_learning_rate: float | Schedule,
  client_weighting: str,
) -> Algorithm:
  """FedCM with any gradient at the clients: local_gradient(grad, y, round) takes the place of g(y; b)."""
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  eta = schedule("server_learning_rate", server_learning_rate, above=0)
  alpha = schedule("alpha", alpha, above=0, at_most=1)

  def client_update(client, message, state):
    x, m = message
    lr, own, K = eta_l(client.round), alpha(client.round), client.num_steps

    def step(y, grad):
      g = local_gradient(grad, y, client.round)
      return trees.map(lambda y, g, m: y - lr * (own * g + (1 - own) * m), y, g, m)

    delta = trees.subtract(x, client.steps(step, x))
    return Update(Upload(delta, trees.map(lambda d: tf.math.divide_no_nan(d, lr * K), delta)))

  def server_update(state, mean, info):
    x = trees.map(lambda x, d: x - eta(info.round) * d, state.x, mean.delta)
    return ServerState(x, m=mean.mean_step)

  def upload_bytes(upload):
    return wire_bytes.dense_bytes(upload.delta) + tf.float32.size  # Δ and K_i

  return Algorithm(
    init_server=lambda x: ServerState(x, trees.zeros_like(x)),
    exchanges=(Exchange(lambda state, t: state, client_update, server_update, upload_bytes),),
    model=lambda state: state.x,
    client_weighting=client_weighting,
    momentum=lambda state, t, steps: state.m,
    averaging=Averaging(delta="delta", x="x"),
  )
