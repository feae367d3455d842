"""FedLion: clients run Lion from the server's momentum; the server averages their models and momenta.

Zhiwei Tang, Tsung-Hui Chang, "FedLion: Faster Adaptive Federated Optimization with Fewer Communication",
ICASSP 2024. https://arxiv.org/abs/2402.09941

    client:  u = sign(β₁s + (1−β₁)g(y; b));   y ← y − η_l (u + λy);   s ← β₂s + (1−β₂)g(y; b),
             from (y, s) = (x, m), with one gradient per step;   Δ = x − y
    server:  x ← x − E[Δ];   m ← E[s_i]

sign(0) = 0. With λ = 0, Δ/η_l is a vector of whole numbers between −K_i and K_i, which packs into
⌈log₂(2K+1)⌉ bits per coordinate. The byte counts here are those of floats, which the authors' code sends.
"""

from typing import NamedTuple

import tensorflow as tf

from tff_momentum import trees, validation
from tff_momentum.adaptive_steps import first_moment, unit_step_rates
from tff_momentum.algorithm import Algorithm, Exchange, Update, named
from tff_momentum.default_rates import derives_rates
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.trees import Tree


class ServerState(NamedTuple):
  """The model and Lion's momentum; both are sent to the clients."""

  x: Tree
  m: Tree


class Upload(NamedTuple):
  """The client's update and its momentum after the last step."""

  delta: Tree
  s: Tree


@named
@derives_rates(unit_step_rates)
def fedlion(
  *,
  client_learning_rate: float | Schedule,
  beta1: float = 0.9,
  beta2: float = 0.99,
  decoupled_weight_decay: float = 0.0,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedLion.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required; the authors use 0.001.
    beta1: β₁ in [0, 1), the weight of the momentum in a step; default 0.9, as in the authors' code.
    beta2: β₂ in [0, 1), the weight of the momentum in the next; default 0.99. The authors' scripts set 0.9.
    decoupled_weight_decay: λ ≥ 0, beside the step; default 0. Use this or weight decay in the gradient.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedlion(client_learning_rate=0.001).name
    'fedlion'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  validation.number("beta1", beta1, at_least=0, below=1)
  validation.number("beta2", beta2, at_least=0, below=1)
  validation.number("decoupled_weight_decay", decoupled_weight_decay, at_least=0)

  def client_update(client, message, state):
    x, m = message
    lr, decay = eta_l(client.round), decoupled_weight_decay

    def step(carry, grad):
      y, s = carry
      g = grad(y)
      u = trees.map(tf.sign, first_moment(s, g, beta1))
      return trees.map(lambda y, u: y - lr * (u + decay * y), y, u), first_moment(s, g, beta2)

    y, s = client.steps(step, (x, m))
    return Update(Upload(trees.subtract(x, y), s))

  def server_update(state, mean, info):
    return ServerState(trees.subtract(state.x, mean.delta), mean.s)

  return Algorithm(
    init_server=lambda x: ServerState(x, trees.zeros_like(x)),
    exchanges=(Exchange(lambda state, t: state, client_update, server_update),),
    model=lambda state: state.x,
    client_weighting=client_weighting,
    momentum=lambda state, t, steps: state.m,
  )
