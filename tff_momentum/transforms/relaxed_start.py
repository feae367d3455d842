"""FedInit: clients start beyond the server's model, away from the model that they ended at last time.

Yan Sun, Li Shen, Dacheng Tao, "Understanding How Consistency Works in Federated Learning via Stage-wise
Relaxed Initialization", NeurIPS 2023. https://arxiv.org/abs/2306.05706

    client:  y = x + β(x − ŷ_i) at the start, then the algorithm's own steps;   Δ = start − y;   ŷ_i ← y
    server:  the algorithm's own: x ← x − η E[Δ]

The start takes the place of x everywhere at the client: in proximal terms, Δ and control variates. ŷ_i = x⁰
for a client that was never seen.

`aggregate="moves"`, the default and the authors' code, sends start − y, so that the shift never enters x. The
paper averages models: Δ = x − y (`aggregate="models"`). The two agree if everyone takes part and η = 1. In
cohorts, averaging models turns x − ŷ_i, which is 1/C rounds old, into momentum of strength β/C, and diverges
for β > C.
"""

import dataclasses
import warnings
from typing import Any, NamedTuple

import tensorflow as tf

from tff_momentum import trees, validation
from tff_momentum.algorithm import Algorithm, Update
from tff_momentum.schedules import Schedule, schedule
from tff_momentum.transforms import averaging_parts as parts
from tff_momentum.trees import Tree

AGGREGATE = ("moves", "models")
FIRST_ROUND = ("initial", "none")


class ClientState(NamedTuple):
  """The algorithm's own client state, ŷ_i, and whether the client was seen (empty if that is not needed)."""

  inner: Any
  last: Tree
  seen: tf.Tensor | tuple[()]


def relaxed(
  algorithm: Algorithm,
  *,
  beta: float | Schedule = 0.1,
  aggregate: str = "moves",
  first_round: str = "initial",
  participation: float | None = None,
) -> Algorithm:
  """Returns the same algorithm with FedInit's relaxed starts.

  Example:
    >>> import tff_momentum as tfm
    >>> tfm.relaxed(tfm.algorithms.fedavg(client_learning_rate=0.1), beta=0.1)
    Algorithm(fedavg(client_learning_rate=0.1), 1 exchange per round)

  Args:
    algorithm: an algorithm whose server steps x ← x − η E[Δ], with uncompressed uploads; compress the result.
    beta: β in [0, 1), a number or a schedule; default 0.1, as in the authors' code.
    aggregate: what the server averages, the clients' "moves" (default) or their "models".
    first_round: where a client starts that was never seen: x + β(x − x⁰), "initial" (default), or x, "none".
    participation: C in (0, 1], clients per round over all clients, for a warning where β > C diverges.

  Raises:
    ValueError: the algorithm's server steps in another way, or a value is out of its range.
  """
  beta = schedule("beta", beta, at_least=0, below=1)
  validation.one_of("aggregate", aggregate, AGGREGATE)
  validation.one_of("first_round", first_round, FIRST_ROUND)
  if participation is not None:
    validation.number("participation", participation, above=0, at_most=1)
    if aggregate == "models" and beta.high > participation:
      warnings.warn(
        f"fedinit with aggregate='models' and beta={beta} is likely to diverge if a share of "
        f"{participation:g} of the clients takes part: use a smaller beta, or aggregate='moves'.",
        stacklevel=2,
      )
  where = parts.require("fedinit", algorithm)
  if not where.exact:
    raise ValueError(
      "fedinit needs an algorithm with uncompressed uploads, whose clients know their final model; found one "
      "with compressed uploads: choose the algorithm without compression, and --compression beside it."
    )
  (exchange,) = algorithm.exchanges

  def init_client(x, seed):
    seen = () if first_round == "initial" else tf.zeros([])
    return ClientState(algorithm.init_client(x, seed), x, seen)

  def client_update(client, message, state):
    x, share = parts.part(message, where.x), beta(client.round)
    if first_round == "none":
      share = share * state.seen
    start = trees.map(lambda x, last: x + share * (x - last), x, state.last)
    update = exchange.client_update(client, parts.with_part(message, where.x, start), state.inner)
    y = trees.subtract(start, parts.part(update.upload, where.delta))
    upload = update.upload
    if aggregate == "models":
      upload = parts.with_part(upload, where.delta, trees.subtract(x, y))
    seen = () if first_round == "initial" else tf.ones([])
    return Update(upload, ClientState(update.state, y, seen))

  return dataclasses.replace(
    algorithm,
    exchanges=(dataclasses.replace(exchange, client_update=client_update),),
    init_client=init_client,
  )
