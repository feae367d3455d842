"""FedExP: the server extrapolates, at a rate that it computes from the clients' updates in every round.

Divyansh Jhunjhunwala, Shiqiang Wang, Gauri Joshi, "FedExP: Speeding Up Federated Averaging via
Extrapolation", ICLR 2023. https://arxiv.org/abs/2301.09604

    client:  the algorithm's own;   it also sends ‖Δ‖²
    server:  η = max(1, E[‖Δ‖²] / (2(‖E[Δ]‖² + ε)));   x ← x − η E[Δ]

It fits algorithms whose server steps x ← x − η E[Δ]. Their other statistics use E[Δ] as it is. The norm is
that of all tensors together; with compression, Δ is what the client sends.

Deviations: the authors' code has Sε for ε, weights clients by examples, and lets ε shrink by 0.998² a round.
"""

import dataclasses
from typing import Any, NamedTuple

import tensorflow as tf

from tff_momentum import trees, validation
from tff_momentum.algorithm import Algorithm, Update
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.transforms import averaging_parts as parts
from tff_momentum.trees import Tree

EVALUATE = ("last", "mean_of_two")


class ServerState(NamedTuple):
  """The algorithm's own state; for `mean_of_two`, the model before the last step and the steps so far."""

  inner: Any
  previous: Tree
  steps: tf.Tensor | tuple[()]


class Upload(NamedTuple):
  """The algorithm's own upload and ‖Δ‖²."""

  inner: Any
  square: tf.Tensor


def extrapolated(
  algorithm: Algorithm, *, epsilon: float | Schedule = 1e-3, evaluate: str = "last"
) -> Algorithm:
  """Returns the same algorithm with FedExP's server learning rate.

  Example:
    >>> import tff_momentum as tfm
    >>> tfm.extrapolated(tfm.algorithms.fedavg(client_learning_rate=0.1))
    Algorithm(fedavg(client_learning_rate=0.1), 1 exchange per round)

  Args:
    algorithm: an algorithm whose server steps x ← x − η E[Δ], with η = 1.
    epsilon: ε ≥ 0, a number or a schedule; default 0.001. The authors use 0.1 for EMNIST.
    evaluate: the model to evaluate, the "last" (default), or the "mean_of_two" last, as the authors do
      because the models oscillate.

  Raises:
    ValueError: the algorithm's server steps in another way, or a value is out of its range.
  """
  epsilon = schedule("epsilon", epsilon, at_least=0)
  validation.one_of("evaluate", evaluate, EVALUATE)
  where = parts.require("fedexp", algorithm)
  rate = algorithm.hyperparameters.get("server_learning_rate", 1.0)
  if str(rate) not in ("1", "1.0"):
    raise ValueError(
      f"server_learning_rate must be 1 with fedexp, which chooses the rate itself; found {rate}."
    )
  (exchange,) = algorithm.exchanges
  two = evaluate == "mean_of_two"

  def init_server(x):
    return ServerState(
      algorithm.init_server(x), *((x, tf.zeros([], tf.int32)) if two else ((), ()))
    )

  def client_update(client, message, state):
    update = exchange.client_update(client, message, state)
    delta = parts.part(update.upload, where.delta)
    return Update(Upload(update.upload, trees.dot(delta, delta)), update.state)

  def server_update(state, mean, info):
    x, delta = parts.part(state.inner, where.x), parts.part(mean.inner, where.delta)
    below = 2 * (trees.dot(delta, delta) + epsilon(info.round))
    eta = tf.maximum(1.0, tf.math.divide_no_nan(mean.square, below))
    after = trees.map(lambda x, d: x - eta * d, x, delta)
    inner = exchange.server_update(state.inner, mean.inner, info)
    inner = parts.with_part(inner, where.x, after)
    if not two:
      return ServerState(inner, (), ())
    previous = trees.where(tf.equal(state.steps, 0), after, x)  # the first model is evaluated alone
    return ServerState(inner, previous, state.steps + 1)

  def model(state):
    x = algorithm.model(state.inner)
    return trees.map(lambda x, p: (x + p) / 2, x, state.previous) if two else x

  momentum = algorithm.momentum
  return dataclasses.replace(
    algorithm,
    init_server=init_server,
    exchanges=(
      dataclasses.replace(
        exchange,
        message=lambda state, t: exchange.message(state.inner, t),
        client_update=client_update,
        server_update=server_update,
        upload_bytes=lambda specs: exchange.upload_bytes(specs.inner) + tf.float32.size,
      ),
    ),
    model=model,
    averaging=None,
    momentum=momentum and (lambda state, t, steps: momentum(state.inner, t, steps)),
  )
