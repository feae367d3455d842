"""MimeMVR: Mime with momentum-based variance reduction (MVR).

Sai Praneeth Karimireddy et al., "Mime: Mimicking Centralized Stochastic Algorithms in Federated Learning",
arXiv 2020. https://arxiv.org/abs/2008.03606
MVR: Ashok Cutkosky, Francesco Orabona, "Momentum-Based Variance Reduction in Non-Convex SGD", NeurIPS 2019.
https://arxiv.org/abs/1905.10018

    client:  y ← y − η_l [a g(y; b) + (1−a)(m + g(y; b) − g(x₋; b))], both gradients on one batch
    server:  m ← a E[G_i(x)] + (1−a)(m + E[G_i(x)] − E[G_i(x₋)]);   x₋ ← x;   x ← E[y]

m starts at the first cohort's E[G_i(x⁰)], which an extra exchange in the first round collects; x₋ starts at
x⁰.
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

from tff_momentum import trees
from tff_momentum.algorithm import Algorithm, Exchange, Update, named
from tff_momentum.algorithms.mime import gradient_at_server_model
from tff_momentum.default_rates import LocalSgd, Rates, derives_rates
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.trees import Tree


class MvrState(NamedTuple):
  """The model, the model of the round before, and the momentum; all three are sent to the clients."""

  x: Tree
  x_minus: Tree
  m: Tree


class MvrUpload(NamedTuple):
  """A client's model and its full gradients at x and at x₋."""

  y: Tree
  here: Tree
  there: Tree


def small_steps(sgd: LocalSgd, hyperparameters: Mapping[str, Any]) -> Rates:
  """Errors of the correction g(y) − g(x₋) grow with K and last 1/a rounds: the rate is 2√a/K times SGD's."""
  a = max(0.01, schedule("a", hyperparameters["a"]).low)
  share = 1.0 if a == 1 else min(1.0, 2 * math.sqrt(a) / sgd.steps)  # a = 1 is FedAvg
  return {"client_learning_rate": share * sgd.learning_rate}


@named
@derives_rates(small_steps)
def mime_mvr(
  *,
  client_learning_rate: float | Schedule,
  a: float | Schedule = 0.1,
  client_weighting: str = "uniform",
) -> Algorithm:
  """MimeMVR.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    a: a in [0, 1], the weight of the new gradient; 1 is FedAvg. Default 0.1.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> mime_mvr(client_learning_rate=0.1, a=0.2).name
    'mime_mvr'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  a = schedule("a", a, at_least=0, at_most=1)

  def client_update(client, message, state):
    x, x_minus, m = message
    lr, old = eta_l(client.round), 1 - a(client.round)

    def step(y, grad):  # a g + (1−a)(m + g − g₋) = g + (1−a)(m − g₋)
      v = trees.map(lambda g, g_minus, m: g + old * (m - g_minus), grad(y), grad(x_minus), m)
      return trees.map(lambda y, v: y - lr * v, y, v)

    return Update(MvrUpload(client.steps(step, x), *client.full_gradient(x, x_minus)))

  def server_update(state, mean, info):
    old = 1 - a(info.round)
    m = trees.map(lambda m, g, g_minus: g + old * (m - g_minus), state.m, mean.here, mean.there)
    return MvrState(x=mean.y, x_minus=state.x, m=m)

  return Algorithm(
    init_server=lambda x: MvrState(x, x_minus=x, m=trees.zeros_like(x)),
    exchanges=(
      Exchange(
        lambda state, t: state.x,
        gradient_at_server_model,
        lambda state, gradient, info: state._replace(m=gradient),
        first_round_only=True,
        client_work="full_gradient",
      ),
      Exchange(lambda state, t: state, client_update, server_update),
    ),
    model=lambda state: state.x,
    client_weighting=client_weighting,
    momentum=lambda state, t, steps: state.m,
  )
