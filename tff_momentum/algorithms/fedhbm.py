"""FedHBM: heavy-ball momentum relative to the client's own last model.

Riccardo Zaccone, Carlo Masone, Marco Ciccone, "Communication-Efficient Heterogeneous Federated Learning with
Generalized Heavy-Ball Momentum", arXiv 2023, Algorithm 1. https://arxiv.org/abs/2311.18578

A client keeps the model that it ended its last round with, τ_i rounds ago:

    client:  y ← y − η_l g(y; b) + β/(τ_i K_i) (y − y_i^last), from y = x;   y_i^last ← y;   Δ = x − y
    server:  x ← x − η E[Δ]

Rounds count from 1 here, so 0 means "never".

Deviations: `tau_scaling="participation"` replaces 1/τ_i by C = S/N, as the authors' code does.
"""

import warnings

import tensorflow as tf

from tff_momentum import trees, validation
from tff_momentum.algorithm import Algorithm, Update, named
from tff_momentum.algorithms.local_ghbm import ClientState, anchored, inverse_tau
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.trees import Tree


@named
def fedhbm(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 1.0,
  beta: float | Schedule = 1.0,
  tau_scaling: str = "elapsed",
  participation: float | None = None,
  first_round: str = "none",
  client_weighting: str = "num_examples",
) -> Algorithm:
  """FedHBM: the momentum is the distance of the local iterate from the client's last model.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    server_learning_rate: η > 0, a number or a schedule; default 1.
    beta: β in [0, 1]; default 1, from the grid 1, 0.99, 0.9 of GHBM, Table 6.
    tau_scaling: "elapsed" (default, as printed) divides by τ_i; "participation" multiplies by C, as the
      authors' code does.
    participation: C in (0, 1], clients per round over all clients; required for "participation". When it is
      given, a warning says if β and C are likely to make the run diverge.
    first_round: the anchor of a client in its first round: "none" (default) for no momentum, "shared" for the
      initial model, "random" for an initialisation of the client's own, both as of round 0.
    client_weighting: the weights of E[·], "num_examples" (default, as in the paper) or "uniform".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedhbm(client_learning_rate=0.1, beta=0.9, participation=0.1).name
    'fedhbm'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  beta = schedule("beta", beta, at_least=0, at_most=1)
  validation.one_of("first_round", first_round, ("none", "shared", "random"))
  scale = inverse_tau(tau_scaling, participation)
  _warn_if_unstable(beta.high, tau_scaling, participation)

  def client_update(client, x, state):
    lr, t, K = eta_l(client.round), client.round + 1, client.num_steps
    b = beta(client.round)
    if first_round == "none":
      b = tf.where(state.t_i > 0, b, 0.0)
    factor = b * scale(t - state.t_i) / K

    def step(y, grad):
      return trees.map(lambda y, g, old: y - lr * g + factor * (y - old), y, grad(y), state.anchor)

    y = client.steps(step, x)
    return Update(trees.subtract(x, y), ClientState(y, t))

  first = _reinitialised if first_round == "random" else lambda x, seed: x
  return anchored(client_update, first, server_learning_rate, client_weighting)


def _warn_if_unstable(beta: float, tau_scaling: str, participation: float | None) -> None:
  """Warns where the anchors are likely to spread without bound.

  The limits were fitted on quadratics with K ≥ 10 local steps.
  """
  if participation is None:
    return
  highest = 1.3 - 0.6 * participation if tau_scaling == "elapsed" else 0.7 / participation
  if beta > highest:
    warnings.warn(
      f"fedhbm with beta={beta:g}, tau_scaling={tau_scaling} and participation={participation:g} is likely "
      f"to diverge; keep beta below {highest:.2g}.",
      stacklevel=4,  # past this function, the builder and the decorator that names it
    )


def _reinitialised(x: Tree, seed: tf.Tensor) -> Tree:
  """Initial weights of a client's own: each tensor of x⁰ with its entries shuffled.

  Initialisers draw a tensor's entries independently from one distribution, so a shuffled draw is as likely as
  the draw itself, and constants (biases, scales) stay the same. Unlike building the model again, shuffling
  costs milliseconds, needs nothing but x⁰, and touches no global random state.
  """
  shuffled = []
  for number, w in enumerate(tf.nest.flatten(x)):
    own = tf.random.experimental.stateless_fold_in(seed, number)
    entries = tf.random.experimental.stateless_shuffle(tf.reshape(w, [-1]), own)
    shuffled.append(tf.reshape(entries, w.shape))
  return tf.nest.pack_sequence_as(x, shuffled)
