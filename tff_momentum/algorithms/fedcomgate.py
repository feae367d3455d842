"""FedCOMGATE (Haddadpour et al. 2021): gradient tracking with quantised uploads.

    client:  y ← y − η_l (g(y; b) − δ_i), from y = x;   Q_i = Q((x − y)/η_l)
    server:  x ← x − η η_l E[Q_i]
    then, in a second exchange with the same cohort:   δ_i ← δ_i + Q_i/K_i − E[Q_j/K_j]

Both terms of δ_i are the quantised ones and of one round: only then does Σ δ_i over the cohort stay
what it was, and the fixed point the optimum. A client sends Q_i and K_i; what the mean is taken
of are Q_i and Q_i/K_i, which the server forms of these.
"""

from typing import Any, NamedTuple

from tff_momentum import trees
from tff_momentum.algorithm import Algorithm, Exchange, Update
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.transforms import compression

_COUNT_BYTES = 4  # K_i, a float32


class Upload(NamedTuple):
  """Q_i, and Q_i/K_i."""

  q: Any
  q_per_step: Any


class Between(NamedTuple):
  """The state between the two exchanges: with what the clients are about to be told."""

  x: Any
  mean_q_per_step: Any


def fedcomgate(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 1.0,
  bits: int = 8,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedCOMGATE.

  Args:
    client_learning_rate: η_l > 0.
    server_learning_rate: η > 0.
    bits: b ≥ 2 of QSGD, 32 for no compression; FedGLOMO's authors run it with 8 and 4.
    client_weighting: "uniform" or "num_examples".
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  eta = schedule("server_learning_rate", server_learning_rate, above=0)
  quantiser = compression.qsgd(bits)

  def client_update(client, x, delta_i):
    lr = eta_l(client.round)

    def step(y, grad):
      return trees.map(lambda y, g, delta_i: y - lr * (g - delta_i), y, grad(y), delta_i)

    y = client.steps(step, x)
    moved = trees.map(lambda x, y: (x - y) / lr, x, y)
    q = quantiser.quantise(moved, client.seed(0))
    per_step = trees.map(lambda q: q / client.num_steps, q)
    return Update(Upload(q, per_step), state=trees.add(delta_i, per_step))

  def server_update(x, mean, info):
    rate = eta(info.round) * eta_l(info.round)
    return Between(trees.map(lambda x, q: x - rate * q, x, mean.q), mean.q_per_step)

  def take_mean_off(client, mean_q_per_step, delta_i):
    return Update(upload=(), state=trees.subtract(delta_i, mean_q_per_step))

  return Algorithm(
    init_server=lambda x: x,
    exchanges=(
      Exchange(
        lambda x, t: x,
        client_update,
        server_update,
        upload_bytes=lambda specs: quantiser.packed_bytes(specs.q) + _COUNT_BYTES,
      ),
      Exchange(
        lambda state, t: state.mean_q_per_step, take_mean_off, lambda state, nothing, info: state.x
      ),
    ),
    model=lambda x: x,
    init_client=lambda x, seed: trees.zeros_like(x),
    client_weighting=client_weighting,
  )
