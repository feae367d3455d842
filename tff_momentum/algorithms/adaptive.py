"""The common part of Reddi et al.'s adaptive server optimizers.

Sashank J. Reddi et al., "Adaptive Federated Optimization", ICLR 2021, Algorithm 2.
https://arxiv.org/abs/2003.00295

    client:  FedAvg's;   Δ = E[x − y]
    server:  m ← β₁m + (1−β₁)Δ;   v ← second_moment(v, Δ)
             x ← x − η m/(√v + ε), with the new v, which starts at ε²

There is no bias correction. Every coordinate moves by about η whatever the size of Δ, so the default server
learning rates are small. The paper's τ is ε here.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from tff_momentum import trees, validation
from tff_momentum.algorithm import Algorithm, Exchange, Update
from tff_momentum.algorithms.fedavg import sgd_delta
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.trees import Tree


class ServerState(NamedTuple):
  """The model and the two moments of its updates."""

  x: Tree
  m: Tree
  v: Tree


def adaptive(
  second_moment: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
  rates: tuple[float | Schedule, float | Schedule],
  beta1: float,
  epsilon: float,
  v0: float | None,
  client_weighting: str,
) -> Algorithm:
  """Algorithm 2 with any rule for the second moment.

  Args:
    second_moment: (v, Δ) -> the next v, leaf by leaf.
    rates: (η_l, η).
    beta1: β₁ in [0, 1).
    epsilon: ε > 0.
    v0: the first value of v, at least 0; None for ε².
    client_weighting: "uniform" or "num_examples".
  """
  eta_l = schedule("client_learning_rate", rates[0], above=0)
  eta = schedule("server_learning_rate", rates[1], above=0)
  validation.number("beta1", beta1, at_least=0, below=1)
  validation.number("epsilon", epsilon, above=0)
  v_start = epsilon**2 if v0 is None else validation.number("v0", v0, at_least=0)

  def init_server(x):
    zeros = trees.zeros_like(x)
    return ServerState(x, m=zeros, v=trees.map(lambda zero: zero + v_start, zeros))

  def client_update(client, x, state):
    return Update(sgd_delta(client, x, eta_l(client.round)))

  def server_update(state, delta, info):
    lr = eta(info.round)
    m = trees.map(lambda m, d: beta1 * m + (1 - beta1) * d, state.m, delta)
    v = trees.map(second_moment, state.v, delta)
    x = trees.map(lambda x, m, v: x - lr * m / (tf.sqrt(v) + epsilon), state.x, m, v)
    return ServerState(x, m, v)

  def momentum(state, t, steps):
    return trees.per_step(state.m, eta_l(t), steps)

  return Algorithm(
    init_server=init_server,
    exchanges=(Exchange(lambda state, t: state.x, client_update, server_update),),
    model=lambda state: state.x,
    client_weighting=client_weighting,
    momentum=momentum if beta1 else None,
  )
