"""FedMuon: clients orthogonalise their momentum (Muon) and add last round's mean step.

Junkang Liu, Fanhua Shang, Junchao Zhou, Hongying Liu, Yuanyuan Liu, Jin Liu, "FedMuon: Accelerating Federated
Learning with Matrix Orthogonalization", arXiv 2025. https://arxiv.org/abs/2510.27403

    client:  matrices:  M ← βM + (1−β)g;   U = βM + (1−β)g;   y ← y − η_l(1−γ)κ(r NS₅(U) + λy)
             vectors:   AdamW from zero in every round, with rate η_l(1−γ)
             all:       y ← y − η_l γ s̄;   from y = x and the server's M;   Δ = x − y
    server:  x ← x − E[Δ];   s̄ ← E[Δ/(η_l K_i)];   M ← E[M_i]

NS₅ is `adaptive_steps.orthogonalised`, r is `muon_scale`. Another method has the same name (arXiv 2509.26337,
with control variates); this is not it.

Deviations: this follows the authors' code, whose κ and r the paper does not have; NS₅ runs in float32, theirs
in bfloat16. Without Nesterov momentum (`nesterov=False`), U = M, as in the paper.
"""

from typing import NamedTuple

import tensorflow as tf

from tff_momentum import adaptive_steps, trees, validation, wire_bytes
from tff_momentum.adaptive_steps import first_moment, matrices, vectors
from tff_momentum.algorithm import Algorithm, Exchange, Update, named
from tff_momentum.default_rates import derives_rates
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.trees import Tree


class ServerState(NamedTuple):
  """The model, last round's mean step and the momentum of the matrices; all are sent."""

  x: Tree
  s_bar: Tree
  M: Tree


class Upload(NamedTuple):
  """Δ, the mean step, which the server computes from Δ and K_i and does not travel, and M_i."""

  delta: Tree
  mean_step: Tree
  M: Tree


@named
@derives_rates(adaptive_steps.orthogonal_step_rates)
def fedmuon(
  *,
  client_learning_rate: float | Schedule,
  gamma: float = 0.5,
  beta: float = 0.98,
  nesterov: bool = True,
  kappa: float = 1.0,
  decoupled_weight_decay: float = 0.01,
  beta1: float = 0.9,
  beta2: float = 0.95,
  epsilon: float = 1e-10,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedMuon of Liu et al.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    gamma: γ in [0, 1), the weight of last round's mean step; default 0.5.
    beta: β in [0, 1), the momentum of matrices; default 0.98.
    nesterov: whether U looks ahead (default, as in the authors' code).
    kappa: κ > 0, the rate of matrices over that of vectors; default 1. The authors use 10 at η_l = 0.0003 and
      0.5 at 0.03.
    decoupled_weight_decay: λ ≥ 0, beside the step; default 0.01.
    beta1: β₁ in [0, 1) of the vectors' AdamW; default 0.9.
    beta2: β₂ in [0, 1) of the vectors' AdamW; default 0.95.
    epsilon: ε > 0 of the vectors' AdamW; default 1e-10.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedmuon(client_learning_rate=0.03, kappa=0.5).name
    'fedmuon'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  validation.number("gamma", gamma, at_least=0, below=1)
  validation.boolean("nesterov", nesterov)
  for name, share in (("beta", beta), ("beta1", beta1), ("beta2", beta2)):
    validation.number(name, share, at_least=0, below=1)
  validation.number("kappa", kappa, above=0)
  validation.number("epsilon", epsilon, above=0)
  validation.number("decoupled_weight_decay", decoupled_weight_decay, at_least=0)

  def orthogonal(u):
    return adaptive_steps.muon_scale(u.shape) * adaptive_steps.orthogonalised(u)

  def client_update(client, message, state):
    x, s_bar, M = message
    lr, decay = eta_l(client.round), decoupled_weight_decay

    def step(carry, grad):
      y, M, m, v, k = carry
      g, k = grad(y), k + 1.0
      M = first_moment(M, matrices(g), beta)
      U = first_moment(M, matrices(g), beta) if nesterov else M
      m = first_moment(m, vectors(g), beta1)
      v = adaptive_steps.second_moment(v, vectors(g), beta2)
      m_share, v_share = (adaptive_steps.bias_correction(beta, k) for beta in (beta1, beta2))
      adam = adaptive_steps.adam_direction(m, v, m_share, v_share, epsilon)
      own = adaptive_steps.joined(
        trees.map(lambda u, y: kappa * (orthogonal(u) + decay * y), U, matrices(y)),
        trees.map(lambda u, y: u + decay * y, adam, vectors(y)),
        like=y,
      )
      mixed = trees.map(lambda u, s: (1 - gamma) * u + gamma * s, own, s_bar)
      return trees.map(lambda y, u: y - lr * u, y, mixed), M, m, v, k

    zeros = trees.zeros_like(vectors(x))
    y, M, _, _, K = client.steps(step, (x, M, zeros, zeros, tf.zeros([])))
    delta = trees.subtract(x, y)
    return Update(Upload(delta, trees.per_step(delta, lr, K), M))

  def server_update(state, mean, info):
    return ServerState(trees.subtract(state.x, mean.delta), mean.mean_step, mean.M)

  def upload_bytes(upload):
    return wire_bytes.dense_bytes((upload.delta, upload.M)) + tf.float32.size  # and K_i

  def init_server(x):
    return ServerState(x, trees.zeros_like(x), trees.zeros_like(matrices(x)))

  return Algorithm(
    init_server=init_server,
    exchanges=(Exchange(lambda state, t: state, client_update, server_update, upload_bytes),),
    model=lambda state: state.x,
    client_weighting=client_weighting,
  )
