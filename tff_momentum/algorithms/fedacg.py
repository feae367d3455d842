"""FedACG: clients start where the server's momentum is about to lead, and stay near that point.

Geeho Kim, Jinkyu Kim, Bohyung Han, "Communication-Efficient Federated Learning with Accelerated Client
Gradient", CVPR 2024. https://arxiv.org/abs/2201.03172

    message: x̂ = x − βm
    client:  y ← y − η_l (g(y; b) + μ(y − x̂)), from y = x̂;   Δ = x̂ − y
    server:  m ← βm + E[Δ];   x ← x − m

The paper's λ is β here and its β is μ. x is evaluated, not x̂. The new x is the mean of the clients' models.
With μ = 0, the x̂ of round t + 1 is the model of FedNAG(η = 1/(1−β), β) after t rounds, so FedACG differs
from FedNAG only in μ and in the point that is evaluated.

Deviations: the authors' code penalises β‖y − x̂‖² without the factor ½ that the paper has, so that its weight
0.001 is μ = 0.002. It also decays η_l inside a round; here η_l changes only between rounds.
"""

from typing import NamedTuple

from tff_momentum import trees
from tff_momentum.algorithm import Algorithm, Exchange, Update, named
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.trees import Tree


class ServerState(NamedTuple):
  """The model and the server's momentum."""

  x: Tree
  m: Tree


@named
def fedacg(
  *,
  client_learning_rate: float | Schedule,
  beta: float | Schedule = 0.85,
  mu: float | Schedule = 0.002,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedACG.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required; the authors use 0.1 · 0.998ᵗ.
    beta: β in [0, 1), the server's momentum; 0 is FedProx. Default 0.85, as in the authors' code.
    mu: μ ≥ 0, the weight of the proximal term. Default 0.002, from the authors' code.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedacg(client_learning_rate=0.1, beta=0.85).name
    'fedacg'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  beta = schedule("beta", beta, at_least=0, below=1)
  mu = schedule("mu", mu, at_least=0)

  def message(state, t):
    return trees.map(lambda x, m: x - beta(t) * m, state.x, state.m)

  def client_update(client, x_hat, state):
    lr, pull = eta_l(client.round), mu(client.round)

    def step(y, grad):
      return trees.map(lambda y, g, x: y - lr * (g + pull * (y - x)), y, grad(y), x_hat)

    return Update(trees.subtract(x_hat, client.steps(step, x_hat)))

  def server_update(state, delta, info):
    m = trees.map(lambda m, d: beta(info.round) * m + d, state.m, delta)
    return ServerState(trees.subtract(state.x, m), m)

  def momentum(state, t, steps):  # under a constant gradient m = E[Δ] + βm
    return trees.per_step(trees.scale(1 - beta(t), state.m), eta_l(t), steps)

  return Algorithm(
    init_server=lambda x: ServerState(x, trees.zeros_like(x)),
    exchanges=(Exchange(message, client_update, server_update),),
    model=lambda state: state.x,
    client_weighting=client_weighting,
    momentum=momentum,
  )
