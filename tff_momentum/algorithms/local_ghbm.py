"""Local GHBM: GHBM without the second download, with clients that remember.

Riccardo Zaccone, Carlo Masone, Marco Ciccone, "Communication-Efficient Heterogeneous Federated Learning with
Generalized Heavy-Ball Momentum", arXiv 2023, section 3.4. https://arxiv.org/abs/2311.18578

A client keeps the model that it received in its last round, τ_i rounds ago:

    client:  y ← y − η_l g(y; b) + β/(τ_i K_i) (x − x_i^last), from y = x;   x_i^last ← x;   Δ = x − y
    server:  x ← x − η E[Δ]

Rounds count from 1 here, so 0 means "never". A client has no momentum in its first round.

Deviations: `tau_scaling="participation"` replaces 1/τ_i by C = S/N, as the authors' code does.
"""

from collections.abc import Callable
from typing import NamedTuple

import tensorflow as tf

from tff_momentum import trees, validation
from tff_momentum.algorithm import Algorithm, ClientUpdate, Exchange, Update, named
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.trees import Tree


class ClientState(NamedTuple):
  """The client's anchor model, and the round it is from (from 1; 0 before the first)."""

  anchor: Tree
  t_i: tf.Tensor


@named
def local_ghbm(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 1.0,
  beta: float | Schedule = 0.9,
  tau_scaling: str = "elapsed",
  participation: float | None = None,
  client_weighting: str = "num_examples",
) -> Algorithm:
  """Local GHBM: the momentum is the server model's change since the client's last round.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    server_learning_rate: η > 0, a number or a schedule; default 1.
    beta: β in [0, 1]; default 0.9.
    tau_scaling: "elapsed" (default, as printed) divides by τ_i; "participation" multiplies by C, as the
      authors' code does.
    participation: C in (0, 1], clients per round over all clients; required for "participation".
    client_weighting: the weights of E[·], "num_examples" (default, as in the paper) or "uniform".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> local_ghbm(client_learning_rate=0.1, tau_scaling="participation", participation=0.1).name
    'local_ghbm'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  beta = schedule("beta", beta, at_least=0, at_most=1)
  scale = inverse_tau(tau_scaling, participation)

  def client_update(client, x, state):
    lr, t, K = eta_l(client.round), client.round + 1, client.num_steps
    b = tf.where(state.t_i > 0, beta(client.round), 0.0)  # no momentum in the first round
    factor = b * scale(t - state.t_i) / K

    def step(y, grad):
      return trees.map(
        lambda y, g, x, old: y - lr * g + factor * (x - old), y, grad(y), x, state.anchor
      )

    return Update(trees.subtract(x, client.steps(step, x)), ClientState(x, t))

  return anchored(client_update, lambda x, seed: x, server_learning_rate, client_weighting)


def anchored(
  client_update: ClientUpdate,
  first_anchor: Callable[[Tree, tf.Tensor], Tree],
  server_learning_rate: float | Schedule,
  client_weighting: str,
) -> Algorithm:
  """FedAvg with clients that keep an anchor model.

  Args:
    client_update: (client, x, `ClientState`) -> `Update` with Δ and the new client state.
    first_anchor: (x⁰, seed) -> the anchor of a client that was never seen.
    server_learning_rate: η > 0.
    client_weighting: "uniform" or "num_examples".
  """
  eta = schedule("server_learning_rate", server_learning_rate, above=0)

  def server_update(x, delta, info):
    return trees.map(lambda x, d: x - eta(info.round) * d, x, delta)

  return Algorithm(
    init_server=lambda x: x,
    exchanges=(Exchange(lambda x, t: x, client_update, server_update),),
    model=lambda x: x,
    init_client=lambda x, seed: ClientState(first_anchor(x, seed), tf.zeros([], tf.int32)),
    client_weighting=client_weighting,
  )


def inverse_tau(
  tau_scaling: str, participation: float | None
) -> Callable[[tf.Tensor], tf.Tensor | float]:
  """Returns the function τ_i -> 1/τ_i, or the constant C in its place."""
  validation.one_of("tau_scaling", tau_scaling, ("elapsed", "participation"))
  if participation is not None or tau_scaling == "participation":
    validation.number("participation", participation, above=0, at_most=1)
  if tau_scaling == "elapsed":
    return lambda tau_i: 1.0 / tf.cast(tau_i, tf.float32)
  return lambda tau_i: participation
