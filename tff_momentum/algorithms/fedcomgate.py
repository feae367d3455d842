"""FedCOMGATE: gradient tracking with quantised uploads.

Farzin Haddadpour, Mohammad Mahdi Kamani, Aryan Mokhtari, Mehrdad Mahdavi, "Federated Learning with
Compression: Unified Analysis and Sharp Guarantees", AISTATS 2021. https://arxiv.org/abs/2007.01154

    client:  y ← y − η_l (g(y; b) − δ_i), from y = x;   Q_i = Q((x − y)/η_l)
    server:  x ← x − η η_l E[Q_i]
    then, in a second exchange with the same cohort:   δ_i ← δ_i + Q_i/K_i − E[Q_j/K_j]

Both terms that change δ_i are quantised and of the same round. Otherwise the cohort's Σ δ_i would change and
the fixed point would not be the optimum.

Deviations: clients may differ in K_i. A client sends Q_i and K_i; the server averages Q_i and Q_i/K_i.
"""

from typing import NamedTuple

from tff_momentum import trees
from tff_momentum.algorithm import Algorithm, Exchange, Update, named
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.transforms import compression
from tff_momentum.trees import Tree

_COUNT_BYTES = 4  # K_i, a float32


class Upload(NamedTuple):
  """Q_i and Q_i/K_i."""

  q: Tree
  q_per_step: Tree


class Between(NamedTuple):
  """The state between the two exchanges: the model, and the mean that the clients will receive."""

  x: Tree
  mean_q_per_step: Tree


@named
def fedcomgate(
  *,
  client_learning_rate: float | Schedule,
  server_learning_rate: float | Schedule = 1.0,
  bits: int = 8,
  norm: str = "l2",
  bucket: int | None = None,
  client_weighting: str = "uniform",
) -> Algorithm:
  """FedCOMGATE.

  Args:
    client_learning_rate: η_l > 0, a number or a schedule. Required.
    server_learning_rate: η > 0, a number or a schedule; default 1.
    bits: b ≥ 2 bits of QSGD; 32 disables compression. Default 8; FedGLOMO, sec. 6, runs it with 8 and 4.
    norm: what QSGD scales a bucket by, its "l2" norm (default) or its largest entry, "max".
    bucket: the number of coordinates that share a norm; all of a tensor by default.
    client_weighting: the weights of E[·], "uniform" (default) or "num_examples".

  Returns:
    The algorithm.

  Raises:
    ValueError: a hyperparameter is out of its range.

  Example:
    >>> fedcomgate(client_learning_rate=0.1, bits=4).name
    'fedcomgate'
  """
  eta_l = schedule("client_learning_rate", client_learning_rate, above=0)
  eta = schedule("server_learning_rate", server_learning_rate, above=0)
  quantiser = compression.qsgd(bits, norm, bucket)

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
        lambda state, t: state.mean_q_per_step,
        take_mean_off,
        lambda state, nothing, info: state.x,
        client_work="none",
      ),
    ),
    model=lambda x: x,
    init_client=lambda x, seed: trees.zeros_like(x),
    client_weighting=client_weighting,
  )
