"""FedSAM: clients take sharpness-aware steps, with the gradient at a point a little uphill.

Zhe Qu, Xingyu Li, Rui Duan, Yao Liu, Bo Tang, Zhuo Lu, "Generalized Federated Learning via Sharpness Aware
Minimization", ICML 2022. https://arxiv.org/abs/2206.02618
Also Debora Caldarola, Barbara Caputo, Marco Ciccone, "Improving Generalization in Federated Learning by
Seeking Flat Minima", ECCV 2022. https://arxiv.org/abs/2203.11834

    client:  g̃ = g(y + u; b), u = ρ g/(‖g‖ + 1e-7), g = g(y; b), on the same batch
             y ← y − η_l g̃, from y = x;   Δ = x − y
    server:  x ← x − η E[Δ]

The norm is that of all tensors together. A local step takes two gradients.

Deviations: weight decay is part of g wherever it is taken, as everywhere in this library. A public
implementation (FL-Simulator) leaves it out of the climb and of the second gradient, and adds it at y.
"""

from collections.abc import Mapping
from typing import Any

import tensorflow as tf

from tff_momentum import trees
from tff_momentum.algorithm import Algorithm, named
from tff_momentum.algorithms.fedavg import averaging
from tff_momentum.client import Gradient
from tff_momentum.default_rates import LocalSgd, Rates, derives_rates
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.trees import Tree


def climb_length(sgd: LocalSgd) -> float:
  """The default ρ: a fifth of SGD's step where the norm of the gradient is 1."""
  return sgd.learning_rate / 5


def short_climb(sgd: LocalSgd, hyperparameters: Mapping[str, Any]) -> Rates:
  """A climb that is long compared with a step never leaves the flat region around the initial weights."""
  return {"client_learning_rate": sgd.learning_rate, "rho": climb_length(sgd)}


@named
@derives_rates(short_climb)
def fedsam(
  *,
  client_learning_rate: float | Schedule,
  rho: float | Schedule = 0.1,
  server_learning_rate: float | Schedule = 1.0,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedSAM.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    rho: ρ ≥ 0, the length of the climb; 0 is FedAvg. Default 0.1, as in FL-Simulator.
    server_learning_rate: η > 0, a number or a schedule; default 1.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedsam(client_learning_rate=0.1, rho=0.1).name
    'fedsam'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  rho = schedule("rho", rho, at_least=0)

  def local_delta(client, x):
    lr, length = eta_l(client.round), rho(client.round)

    def step(y, grad):
      return trees.map(lambda y, g: y - lr * g, y, uphill_gradient(grad, y, grad(y), length))

    return trees.subtract(x, client.steps(step, x))

  return averaging(local_delta, server_learning_rate, client_weighting)


def uphill_gradient(grad: Gradient, y: Tree, g: Tree, rho: tf.Tensor) -> Tree:
  """Returns g̃, the gradient at y + ρ g/(‖g‖ + 1e-7), on the batch of `grad`."""
  scale = rho / (trees.norm(g) + 1e-7)
  return grad(trees.map(lambda y, g: y + scale * g, y, g))
