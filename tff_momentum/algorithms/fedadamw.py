"""FedAdamW: AdamW at the clients, with the server's second moments and last round's mean step.

Junkang Liu, Fanhua Shang, Hongying Liu, Yuxuan Tian, Yuanyuan Liu, Jin Liu, Kewen Zhu, Zhouchen Lin,
"FedAdamW: A Communication-Efficient Optimizer with Convergence and Generalization Guarantees for Federated
Large Models", AAAI 2026. https://arxiv.org/abs/2510.27486

    client:  m ← β₁m + (1−β₁)g;   v ← β₂v + (1−β₂)g², from y = x, m = 0 and v = v̄;   k = 1, 2, …
             y ← y − η_l (m/(1−β₁ᵏ) / (√(v/(1−β₂^(T+k))) + ε) + λy + γs̄);   Δ = x − y;   v̄_i from v
    server:  x ← x − E[Δ];   s̄ ← E[Δ/(η_l K_i)];   v̄ ← E[v̄_i];   T ← T + E[K_i]

v̄_i is the mean of v over each tensor, one number each, as in the paper; `second_moment="full"` sends v
itself, as the released code does. That code also corrects m by 1−β₁^(T+k), so that m starts near 0 in every
round: `first_moment="all"`.

Deviations: λy shrinks the weights, as in AdamW; restatements of the paper print the other sign. T grows by
E[K_i]; in the released code it grows by the batches of one client.
"""

from typing import NamedTuple

import tensorflow as tf

from tff_momentum import adaptive_steps, trees, validation, wire_bytes
from tff_momentum.algorithm import Algorithm, Exchange, Update, named
from tff_momentum.default_rates import derives_rates
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.trees import Tree


class ServerState(NamedTuple):
  """The model, last round's mean step, the second moments and the steps so far; all are sent."""

  x: Tree
  s_bar: Tree
  v_bar: Tree
  T: tf.Tensor


class Upload(NamedTuple):
  """Δ, the mean step Δ/(η_l K_i), v̄_i and K_i.

  The server computes the mean step from Δ and K_i, so that it does not travel.
  """

  delta: Tree
  mean_step: Tree
  v_bar: Tree
  steps: tf.Tensor


@named
@derives_rates(adaptive_steps.unit_step_rates)
def fedadamw(
  *,
  client_learning_rate: float | Schedule,
  gamma: float = 0.5,
  beta1: float = 0.9,
  beta2: float = 0.999,
  epsilon: float = 1e-8,
  decoupled_weight_decay: float = 0.01,
  second_moment: str = "tensor",
  first_moment: str = "round",
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedAdamW.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required; the authors use 0.0003 on a cosine.
    gamma: γ in [0, 1), the weight of last round's mean step; default 0.5, as in the authors' code.
    beta1: β₁ in [0, 1); default 0.9.
    beta2: β₂ in [0, 1); default 0.999.
    epsilon: ε > 0; default 1e-8.
    decoupled_weight_decay: λ ≥ 0, beside the step; default 0.01.
    second_moment: what clients send of v, its mean over each "tensor" (default), or v in "full".
    first_moment: m is corrected by the steps of the "round" (default) or of "all" rounds.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedadamw(client_learning_rate=0.0003).name
    'fedadamw'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  validation.number("gamma", gamma, at_least=0, below=1)
  validation.number("beta1", beta1, at_least=0, below=1)
  validation.number("beta2", beta2, at_least=0, below=1)
  validation.number("epsilon", epsilon, above=0)
  validation.number("decoupled_weight_decay", decoupled_weight_decay, at_least=0)
  validation.one_of("second_moment", second_moment, ("tensor", "full"))
  validation.one_of("first_moment", first_moment, ("round", "all"))

  def summary(v):
    return trees.map(tf.reduce_mean, v) if second_moment == "tensor" else v

  def client_update(client, message, state):
    x, s_bar, v_bar, T = message
    lr, decay = eta_l(client.round), decoupled_weight_decay

    def step(carry, grad):
      y, m, v, k = carry
      g, k = grad(y), k + 1.0
      m = adaptive_steps.first_moment(m, g, beta1)
      v = adaptive_steps.second_moment(v, g, beta2)
      m_share = adaptive_steps.bias_correction(beta1, k if first_moment == "round" else T + k)
      v_share = adaptive_steps.bias_correction(beta2, T + k)
      u = adaptive_steps.adam_direction(m, v, m_share, v_share, epsilon)
      y = trees.map(lambda y, u: y - lr * (u + decay * y), y, u)
      return trees.map(lambda y, s: y - lr * gamma * s, y, s_bar), m, v, k

    v = trees.map(lambda x, v: tf.zeros_like(x) + v, x, v_bar)
    y, _, v, K = client.steps(step, (x, trees.zeros_like(x), v, tf.zeros([])))
    delta = trees.subtract(x, y)
    return Update(Upload(delta, trees.per_step(delta, lr, K), summary(v), K))

  def server_update(state, mean, info):
    x = trees.subtract(state.x, mean.delta)
    return ServerState(x, mean.mean_step, mean.v_bar, state.T + mean.steps)

  def upload_bytes(upload):
    return wire_bytes.dense_bytes((upload.delta, upload.v_bar, upload.steps))

  def init_server(x):
    zeros = trees.zeros_like(x)
    return ServerState(x, zeros, summary(zeros), tf.zeros([]))

  return Algorithm(
    init_server=init_server,
    exchanges=(Exchange(lambda state, t: state, client_update, server_update, upload_bytes),),
    model=lambda state: state.x,
    client_weighting=client_weighting,
  )
