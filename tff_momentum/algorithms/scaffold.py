"""SCAFFOLD: control variates at the server and at each client correct the local steps.

Sai Praneeth Karimireddy et al., "SCAFFOLD: Stochastic Controlled Averaging for Federated Learning", ICML
2020, Algorithm 1. https://arxiv.org/abs/1910.06378

    client:  y ← y − η_l (g(y; b) − c_i + c), from y = x
             c_i⁺ = G_i(x)                          (option I)
             c_i⁺ = c_i − c + (x − y)/(K_i η_l)     (option II)
    server:  x ← x − η E[Δ], Δ = x − y;   c ← c + (W/W_all) E[c_i⁺ − c_i]

W/W_all is S/N, or the cohort's share of all examples when E[·] is weighted by examples; otherwise c would not
stay the mean of all c_i.
"""

from typing import NamedTuple

from tff_momentum import trees, validation
from tff_momentum.algorithm import WEIGHTINGS, Algorithm, Averaging, Exchange, Update, named
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.trees import Tree


class ServerState(NamedTuple):
  """The model and the server's control variate; both are sent to the clients."""

  x: Tree
  c: Tree


class Upload(NamedTuple):
  """The client's update Δ = x − y and the change of its control variate."""

  delta: Tree
  dc: Tree


@named
def scaffold(
  *,
  client_learning_rate: float | Schedule,
  num_clients: int,
  server_learning_rate: float | Schedule = 1.0,
  option: str = "II",
  client_weighting: str = "uniform",
  total_examples: int | None = None,
) -> Algorithm:
  """SCAFFOLD.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    num_clients: N, the number of all clients. Required.
    server_learning_rate: η > 0, the paper's η_g, a number or a schedule; default 1.
    option: "II" (default) reuses the local steps for the new control variate, "I" computes a full gradient.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".
    total_examples: the examples of all clients together; required when weighting by examples.

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> scaffold(client_learning_rate=0.1, num_clients=100).name
    'scaffold'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  eta = schedule("server_learning_rate", server_learning_rate, above=0)
  validation.one_of("option", option, ("I", "II"))
  everyone = population(num_clients, client_weighting, total_examples)

  def client_update(client, message, c_i):
    x, c = message
    lr = eta_l(client.round)
    correction = trees.subtract(c, c_i)

    def step(y, grad):
      return trees.map(lambda y, g, e: y - lr * (g + e), y, grad(y), correction)

    delta = trees.subtract(x, client.steps(step, x))
    if option == "I":
      c_new = client.full_gradient(x)
    else:
      c_new = trees.subtract(trees.per_step(delta, lr, client.num_steps), correction)
    return Update(Upload(delta, trees.subtract(c_new, c_i)), state=c_new)

  def server_update(state, mean, info):
    share = info.weight / everyone
    return ServerState(
      x=trees.map(lambda x, d: x - eta(info.round) * d, state.x, mean.delta),
      c=trees.map(lambda c, dc: c + share * dc, state.c, mean.dc),
    )

  return Algorithm(
    init_server=lambda x: ServerState(x, trees.zeros_like(x)),
    exchanges=(Exchange(lambda state, t: state, client_update, server_update),),
    model=lambda state: state.x,
    init_client=lambda x, seed: trees.zeros_like(x),
    client_weighting=client_weighting,
    averaging=Averaging(delta="delta", x="x"),
  )


def population(num_clients: int, client_weighting: str, total_examples: int | None) -> float:
  """Returns W_all, the weight of all clients together: N, or the number of all their examples.

  Raises:
    ValueError: an argument is out of its range, or weighting by examples lacks `total_examples`.
  """
  validation.integer("num_clients", num_clients, at_least=1)
  validation.one_of("client_weighting", client_weighting, WEIGHTINGS)
  if client_weighting == "num_examples" or total_examples is not None:
    validation.integer("total_examples", total_examples, at_least=1)
  return float(num_clients if client_weighting == "uniform" else total_examples or 0)
