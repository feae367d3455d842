"""DiLoCo: AdamW at the workers, Nesterov momentum at the server.

Arthur Douillard et al., "DiLoCo: Distributed Low-Communication Training of Language Models", arXiv 2023.
https://arxiv.org/abs/2311.08105

    client:  AdamW from y = x with its own m_i, v_i and step count k_i, which it keeps between rounds:
             m ← β₁m + (1−β₁)g;   v ← β₂v + (1−β₂)g²;   k ← k + 1
             y ← y − η_l (m/(1−β₁ᵏ) / (√(v/(1−β₂ᵏ)) + ε) + λy);   Δ = x − y
    server:  b ← βb + E[Δ];   x ← x − η(E[Δ] + βb)

`inner="sgd"` is FedNAG(η/(1−β), β). `inner_state="reset"` starts AdamW anew in every round, for clients that
cannot keep state.

Deviations: the authors' code is not public; β₁, β₂ and ε are those of the reproduction diloco_simple.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import tensorflow as tf

from tff_momentum import trees, validation
from tff_momentum.adaptive_steps import (
  adam_direction,
  bias_correction,
  first_moment,
  second_moment,
  unit_step_rates,
)
from tff_momentum.algorithm import Algorithm, Exchange, Update, named
from tff_momentum.algorithms.fedavg import sgd_delta
from tff_momentum.default_rates import LocalSgd, Rates, derives_rates
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.trees import Tree


class ServerState(NamedTuple):
  """The model and the outer momentum."""

  x: Tree
  b: Tree


class ClientState(NamedTuple):
  """AdamW's moments and the number of its steps."""

  m: Tree
  v: Tree
  k: tf.Tensor


def inner_rates(sgd: LocalSgd, hyperparameters: Mapping[str, Any]) -> Rates:
  """Unit steps add up like a random walk: a hundredth of SGD's rate over the root of the outer gain."""
  eta = schedule("server_learning_rate", hyperparameters["server_learning_rate"]).high
  beta = schedule("beta", hyperparameters["beta"]).high
  gain = max(1.0, eta / (1 - beta))
  if hyperparameters["inner"] != "adamw":
    return {"client_learning_rate": sgd.learning_rate / gain}
  (rate,) = unit_step_rates(sgd, {}).values()
  return {"client_learning_rate": float(rate) / math.sqrt(gain)}


@named
@derives_rates(inner_rates)
def diloco(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 0.7,
  beta: float | Schedule = 0.9,
  inner: str = "adamw",
  inner_state: str = "keep",
  beta1: float = 0.9,
  beta2: float = 0.95,
  epsilon: float = 1e-8,
  decoupled_weight_decay: float = 0.1,
  client_weighting: str = "uniform",
) -> Algorithm:
  """DiLoCo.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required; the paper has 0.0004.
    server_learning_rate: η > 0, a number or a schedule; default 0.7.
    beta: β in [0, 1), the outer momentum; default 0.9.
    inner: the workers' optimizer, "adamw" (default) or "sgd".
    inner_state: what happens to a worker's moments between its rounds, "keep" (default) or "reset".
    beta1: β₁ in [0, 1) of AdamW; default 0.9.
    beta2: β₂ in [0, 1) of AdamW; default 0.95.
    epsilon: ε > 0 of AdamW; default 1e-8.
    decoupled_weight_decay: λ ≥ 0 of AdamW; default 0.1.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> diloco(client_learning_rate=0.0004).name
    'diloco'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  eta = schedule("server_learning_rate", server_learning_rate, above=0)
  beta = schedule("beta", beta, at_least=0, below=1)
  validation.one_of("inner", inner, ("adamw", "sgd"))
  validation.one_of("inner_state", inner_state, ("keep", "reset"))
  validation.number("beta1", beta1, at_least=0, below=1)
  validation.number("beta2", beta2, at_least=0, below=1)
  validation.number("epsilon", epsilon, above=0)
  validation.number("decoupled_weight_decay", decoupled_weight_decay, at_least=0)
  keeps = inner == "adamw" and inner_state == "keep"

  def client_update(client, x, state):
    lr, decay = eta_l(client.round), decoupled_weight_decay
    if inner == "sgd":
      return Update(sgd_delta(client, x, lr))

    def step(carry, grad):
      y, (m, v, k) = carry
      g, k = grad(y), k + 1
      m, v = first_moment(m, g, beta1), second_moment(v, g, beta2)
      taken = tf.cast(k, tf.float32)
      m_share, v_share = bias_correction(beta1, taken), bias_correction(beta2, taken)
      u = adam_direction(m, v, m_share, v_share, epsilon)
      return trees.map(lambda y, u: y - lr * (u + decay * y), y, u), ClientState(m, v, k)

    y, state = client.steps(step, (x, state if keeps else fresh(x)))
    return Update(trees.subtract(x, y), state if keeps else ())

  def server_update(state, delta, info):
    rate, share = eta(info.round), beta(info.round)
    b = trees.map(lambda b, d: share * b + d, state.b, delta)
    return ServerState(trees.map(lambda x, d, b: x - rate * (d + share * b), state.x, delta, b), b)

  def fresh(x):
    return ClientState(trees.zeros_like(x), trees.zeros_like(x), tf.zeros([], tf.int32))

  def momentum(state, t, steps):
    return trees.per_step(trees.scale(1 - beta(t), state.b), eta_l(t), steps)

  return Algorithm(
    init_server=lambda x: ServerState(x, trees.zeros_like(x)),
    exchanges=(Exchange(lambda state, t: state.x, client_update, server_update),),
    model=lambda state: state.x,
    init_client=lambda x, seed: fresh(x) if keeps else (),
    client_weighting=client_weighting,
    momentum=momentum if inner == "sgd" else None,
  )
