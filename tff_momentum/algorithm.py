"""The vocabulary: a round is a tuple of exchanges, and an algorithm a record of pure functions.

An exchange is *message → client update → mean → server update*. A whole algorithm, FedAvg::

    def fedavg(*, client_learning_rate, server_learning_rate=1.0):
      def client_update(client, x, state):
        def step(y, grad):                                        # y ← y − η_l g(y; b)
          return trees.map(lambda y, g: y - client_learning_rate * g, y, grad(y))
        return Update(upload=trees.subtract(x, client.steps(step, x)))

      def server_update(x, delta, info):                          # x ← x − η E[Δ]
        return trees.map(lambda x, d: x - server_learning_rate * d, x, delta)

      return Algorithm(init_server=lambda x: x,
                       exchanges=(Exchange(lambda x, info: x, client_update, server_update),),
                       model=lambda x: x)

`process.build_process` turns the record into a `tff.templates.IterativeProcess`. The functions are
plain TensorFlow: they run, and are tested, with no TFF around them. One trap: TFF traces them in a graph,
where `==` compares Python objects; write `tf.equal`.
"""

import dataclasses
import functools
from collections.abc import Callable
from typing import Any, NamedTuple, ParamSpec

import tensorflow as tf

from tff_momentum import validation, wire_bytes

P = ParamSpec("P")
WEIGHTINGS = ("uniform", "num_examples")


class RoundInfo(NamedTuple):
  """What the server knows of a round beside its state.

  Attributes:
    round: the number of the round, from 0.
    weight: the sum of the clients' weights: how many took part, or how many examples they hold.
  """

  round: tf.Tensor
  weight: tf.Tensor


class Update(NamedTuple):
  """What a client's part in an exchange comes to: what it sends, and what it keeps."""

  upload: Any
  state: Any = ()


ClientUpdate = Callable[[Any, Any, Any], Update]
ServerUpdate = Callable[[Any, Any, RoundInfo], Any]
Momentum = Callable[[Any, tf.Tensor, tf.Tensor], Any]


@dataclasses.dataclass(frozen=True)
class Exchange:
  """One trip to the clients and back.

  Attributes:
    message: (server state, round) -> what every client downloads.
    client_update: (client, message, client state) -> `Update`; the client is a `local.Client`.
    server_update: (server state, mean of the uploads, `RoundInfo`) -> server state. Only the last
      exchange of a round must return the type of state that the round began with.
    upload_bytes: (specs of the upload) -> bytes on the wire, for uploads that are packed.
    download_bytes: (specs of the message) -> bytes on the wire, where a client downloads only a part.
    first_round_only: whether the exchange takes place in round 0 alone; its uploads are zeros later.
  """

  message: Callable[[Any, tf.Tensor], Any]
  client_update: ClientUpdate
  server_update: ServerUpdate
  upload_bytes: Callable[[Any], int] = wire_bytes.dense_bytes
  download_bytes: Callable[[Any], int] = wire_bytes.dense_bytes
  first_round_only: bool = False


@dataclasses.dataclass(frozen=True)
class Algorithm:
  """A federated algorithm.

  Attributes:
    init_server: initial weights -> server state.
    exchanges: what happens in a round, in order.
    model: server state -> the weights to evaluate.
    init_client: (initial weights, seed) -> the state of a client that was never seen before; an empty
      tuple for clients that keep nothing.
    client_weighting: "uniform" or "num_examples": the weights of the cohort mean E[·].
    prepare_model: changes the model before it is trained (FedMAX adds a penalty to its loss).
    momentum: (server state, round, mean K_i) -> the server's momentum in the units of one gradient: what
      it would settle to under a constant gradient is that gradient. None where the server has none.
    step_operations: C of FedGBO, Table 6, operations of a local step for each parameter, where a
      paper counts them otherwise than our own step does (see `diagnostics.flops`).
    name: what errors call it.
    max_staleness: how many rounds ago a client may have started at most; 0 for a synchronous
      algorithm, whose clients all start in the round itself (see `asynchronous`).
  """

  init_server: Callable[[Any], Any]
  exchanges: tuple[Exchange, ...]
  model: Callable[[Any], Any]
  init_client: Callable[[Any, tf.Tensor], Any] = lambda weights, seed: ()
  client_weighting: str = "uniform"
  prepare_model: Callable[[Any], Any] = lambda model: model
  momentum: Momentum | None = None
  step_operations: int | None = None
  name: str = "an algorithm without a name"
  max_staleness: int = 0

  def __post_init__(self):
    validation.one_of("client_weighting", self.client_weighting, WEIGHTINGS)


def named(builder: Callable[P, Algorithm]) -> Callable[P, Algorithm]:
  """Decorates a builder so that its algorithms carry its name.

  Where one builder calls another, the algorithm has the name of the outer one.
  """

  @functools.wraps(builder)
  def build(*args: P.args, **kwargs: P.kwargs) -> Algorithm:
    return dataclasses.replace(builder(*args, **kwargs), name=builder.__name__)

  return build
