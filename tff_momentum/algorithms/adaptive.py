"""Adaptive server steps (Reddi et al. 2021, Algorithm 2): their common part, FedAdagrad and FedYogi.

client:  FedAvg's, with Δ = E[x − y] at the server
server:  m ← β₁m + (1−β₁)Δ
         fedadagrad  v ← v + Δ²
         fedyogi     v ← v − (1−β₂)Δ² sign(v − Δ²)
         x ← x − η m/(√v + ε), with the new v, which starts at ε²

No bias correction. Every coordinate moves by about η, whatever the size of Δ: hence the small defaults.
"""

from collections.abc import Callable
from typing import Any, NamedTuple

import tensorflow as tf

from tff_momentum import trees, validation
from tff_momentum.algorithm import Algorithm, Exchange, Update
from tff_momentum.algorithms.fedavg import sgd_delta
from tff_momentum.schedules import Schedule, schedule


class ServerState(NamedTuple):
  """The model and the two moments of its moves."""

  x: Any
  m: Any
  v: Any


def fedadagrad(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 0.1,
  beta1: float = 0.0,
  epsilon: float = 1e-3,
  v0: float | None = None,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedAdagrad.

  Args:
    client_learning_rate: η_l > 0.
    server_learning_rate: η > 0.
    beta1: β₁ in [0, 1).
    epsilon: ε > 0; the larger, the less adaptive.
    v0: where v starts, ≥ 0; ε² unless given.
    client_weighting: "uniform" or "num_examples".
  """

  def second_moment(v, delta):
    return v + tf.square(delta)

  rates = client_learning_rate, server_learning_rate
  return adaptive(second_moment, rates, beta1, epsilon, v0, client_weighting)


def fedyogi(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 0.01,
  beta1: float = 0.9,
  beta2: float = 0.99,
  epsilon: float = 1e-3,
  v0: float | None = None,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedYogi: v moves by no more than (1−β₂)Δ², so that it cannot collapse.

  Args:
    client_learning_rate: η_l > 0.
    server_learning_rate: η > 0.
    beta1: β₁ in [0, 1).
    beta2: β₂ in [0, 1).
    epsilon: ε > 0; the larger, the less adaptive.
    v0: where v starts, ≥ 0; ε² unless given.
    client_weighting: "uniform" or "num_examples".
  """
  validation.number("beta2", beta2, at_least=0, below=1)

  def second_moment(v, delta):
    square = tf.square(delta)
    return v - (1 - beta2) * square * tf.sign(v - square)

  rates = client_learning_rate, server_learning_rate
  return adaptive(second_moment, rates, beta1, epsilon, v0, client_weighting)


def adaptive(
  second_moment: Callable[[tf.Tensor, tf.Tensor], tf.Tensor],
  rates: tuple[float | Schedule, float | Schedule],
  beta1: float,
  epsilon: float,
  v0: float | None,
  client_weighting: str,
) -> Algorithm:
  """Algorithm 2 with any rule (v, Δ) -> v for the second moment; `rates` is (η_l, η)."""
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
