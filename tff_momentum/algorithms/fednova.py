"""FedNova: updates are divided by how far the local steps reach, so that unequal work adds no bias.

Jianyu Wang, Qinghua Liu, Hao Liang, Gauri Joshi, H. Vincent Poor, "Tackling the Objective Inconsistency
Problem in Heterogeneous Federated Optimization", NeurIPS 2020. https://arxiv.org/abs/2007.07481

    client:  v ← β_l v + g(y; b);   y ← y − η_l (v + μ(y − x)), from y = x and v = 0 in every round
             Δ = x − y;   a_i = Δ/η_l if every gradient were 1
    server:  m ← βm + τ E[Δ/a_i]/η_l;   x ← x − η η_l m, with τ = E[a_i] or E[K_i]

Without momentum and proximal term a_i = K_i. Clients compute a_i by the recursion of their own steps.

Deviations: η is not in the paper. A proximal term and local momentum exclude each other, because the authors'
normaliser does not fit both. With μ > 0 their code has τ = E[K_i], else τ = E[a_i]; so has the default.
"""

from typing import NamedTuple

import tensorflow as tf

from tff_momentum import trees, validation
from tff_momentum.algorithm import Algorithm, Exchange, Update, named
from tff_momentum.algorithms.fedavg_lm import local_momentum_rates
from tff_momentum.default_rates import derives_rates
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.trees import Tree


class ServerState(NamedTuple):
  """The model and the server's momentum, K times a gradient."""

  x: Tree
  m: Tree


class Upload(NamedTuple):
  """Δ/a_i and the client's part of τ: a_i or K_i."""

  delta: Tree
  tau: tf.Tensor


@named
@derives_rates(local_momentum_rates)
def fednova(
  *,
  client_learning_rate: float | Schedule,
  beta_l: float = 0.9,
  mu: float = 0.0,
  beta: float | Schedule = 0.0,
  effective_steps: str = "auto",
  server_learning_rate: float | Schedule = 1.0,
  client_weighting: str = "num_examples",
) -> Algorithm:
  """FedNova.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required; the authors use 0.02.
    beta_l: β_l in [0, 1), the clients' momentum, which starts at zero in every round; default 0.9, as in the
      authors' script.
    mu: μ ≥ 0, the weight of a proximal term, which needs β_l = 0; default 0.
    beta: β in [0, 1), the server's momentum; default 0.
    effective_steps: τ, "norm" for E[a_i] or "steps" for E[K_i]; "auto" (default) is "steps" if μ > 0 and
      else "norm", as in the authors' code.
    server_learning_rate: η > 0, a number or a schedule; default 1.
    client_weighting: the weights of E[·], "num_examples" (default, as in the paper) or "uniform".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range, or both `beta_l` and `mu` are above 0.

  Example:
    >>> fednova(client_learning_rate=0.02, beta_l=0.9).name
    'fednova'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  eta = schedule("server_learning_rate", server_learning_rate, above=0)
  beta = schedule("beta", beta, at_least=0, below=1)
  validation.number("beta_l", beta_l, at_least=0, below=1)
  validation.number("mu", mu, at_least=0)
  validation.one_of("effective_steps", effective_steps, ("auto", "norm", "steps"))
  if mu and beta_l:
    raise ValueError(
      f"mu must be 0 with local momentum; found mu={mu:g} and beta_l={beta_l:g}: set beta_l=0."
    )
  by_steps = effective_steps == "steps" or (effective_steps == "auto" and mu > 0)

  def client_update(client, x, state):
    lr = eta_l(client.round)

    def step(carry, grad):
      y, v, reach, speed = carry
      v = trees.map(lambda v, g: beta_l * v + g, v, grad(y))
      y = trees.map(lambda y, v, x: y - lr * (v + mu * (y - x)), y, v, x)
      speed = beta_l * speed + 1.0
      return y, v, reach + speed - lr * mu * reach, speed

    start = (x, trees.zeros_like(x), tf.zeros([]), tf.zeros([]))
    y, _, a_i, _ = client.steps(step, start)
    delta = trees.map(lambda x, y: tf.math.divide_no_nan(x - y, tf.cast(a_i, x.dtype)), x, y)
    return Update(Upload(delta, client.num_steps if by_steps else a_i))

  def server_update(state, mean, info):
    t = info.round
    gradient = trees.per_step(trees.scale(mean.tau, mean.delta), eta_l(t), 1.0)
    m = trees.map(lambda m, g: beta(t) * m + g, state.m, gradient)
    return ServerState(trees.map(lambda x, m: x - eta(t) * eta_l(t) * m, state.x, m), m)

  def momentum(state, t, steps):  # under a constant gradient g, E[Δ/a] = η_l g and m = τg + βm
    if by_steps:
      tau = steps
    elif mu:
      tau = (1 - (1 - eta_l(t) * mu) ** steps) / (eta_l(t) * mu)
    else:
      tau = (steps - beta_l * (1 - beta_l**steps) / (1 - beta_l)) / (1 - beta_l)
    return trees.per_step(trees.scale(1 - beta(t), state.m), 1.0, tau)

  return Algorithm(
    init_server=lambda x: ServerState(x, trees.zeros_like(x)),
    exchanges=(Exchange(lambda state, t: state.x, client_update, server_update),),
    model=lambda state: state.x,
    client_weighting=client_weighting,
    momentum=momentum if beta.high > 0 else None,
  )
