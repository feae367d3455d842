"""FedHBM (Zaccone et al., Communication-Efficient ... GHBM, Algorithm 1): heavy ball towards oneself.

A client remembers the model it ended with when it last took part, τ_i rounds ago:

    client:  y ← y − η_l g(y; b) + β/(τ_i K_i) (y − the y it ended with then), from y = x;  Δ = x − y
    server:  x ← x − η E[Δ]

Rounds count from 1 here, so that 0 is the start. `tau_scaling="participation"` has C = S/N for 1/τ_i.
"""

import warnings
from typing import Any

import tensorflow as tf

from tff_momentum import trees, validation
from tff_momentum.algorithm import Algorithm, Update
from tff_momentum.algorithms.local_ghbm import ClientState, anchored, inverse_tau
from tff_momentum.schedules import Schedule, schedule


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
  """FedHBM: the momentum is how the local iterate has moved away from the client's last one.

  Args:
    client_learning_rate: η_l > 0.
    server_learning_rate: η > 0.
    beta: β in [0, 1]; the authors' grid is 1, 0.99 and 0.9.
    tau_scaling: "elapsed" divides by τ_i, "participation" multiplies by C as the authors' code does.
    participation: C in (0, 1], clients per round over all clients; needed for that, and for a warning
      where β and C make it likely that the run diverges.
    first_round: what a client that was never there goes by: "none" has no momentum, "shared" the
      initial model, "random" an initialisation of its own, both as of round 0.
    client_weighting: "num_examples", as the paper runs it, or "uniform".
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
  """Past these limits the anchors spread ever further; fitted on quadratics with K ≥ 10 local steps."""
  if participation is None:
    return
  highest = 1.3 - 0.6 * participation if tau_scaling == "elapsed" else 0.7 / participation
  if beta > highest:
    warnings.warn(
      f"fedhbm with beta={beta:g}, tau_scaling={tau_scaling} and a share of {participation:g} of the "
      f"clients in each round is likely to diverge; keep beta below {highest:.2g}.",
      stacklevel=3,
    )


def _reinitialised(x: Any, seed: tf.Tensor) -> Any:
  """Initial weights of a client's own: each tensor of x⁰ with its entries shuffled.

  Initialisers draw a tensor's entries independently from one law, so a shuffled draw is as likely as the
  draw itself, and constants (biases, scales) stay what they are. Unlike building the model anew
  it costs milliseconds, needs nothing but x⁰ and touches no global random state.
  """
  shuffled = []
  for number, w in enumerate(tf.nest.flatten(x)):
    own = tf.random.experimental.stateless_fold_in(seed, number)
    entries = tf.random.experimental.stateless_shuffle(tf.reshape(w, [-1]), own)
    shuffled.append(tf.reshape(entries, w.shape))
  return tf.nest.pack_sequence_as(x, shuffled)
